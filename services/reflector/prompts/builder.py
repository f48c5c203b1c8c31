"""Builds the prompts of the model-based reflector (R-22 to R-28)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from libs.prompts.templates import PromptTemplates
from services.reflector.domain.reduction import Transcript, format_ranges
from services.reflector.domain.reflection import Insight, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.prompts.texts import ReflectorTexts


class ReflectorPrompts:
    """Builds prompts from `<folder>/<dataset>.txt`, `<folder>/default.txt` or the built-in texts (R-22)."""

    def __init__(self, folder: Path | None, texts: ReflectorTexts, text_chars: int) -> None:
        """Use templates in `folder` if it exists; None selects the built-in texts.

        An answer, report or question longer than `text_chars` is shortened in the middle, with a note in the
        prompt.
        """
        self._text_chars = text_chars
        self._texts = texts
        self._insights = PromptTemplates(folder, texts.insights)
        self._bullet = PromptTemplates(folder, texts.bullet)

    def build_insights_prompt(
        self,
        request: ReflectionRequest,
        transcript: Transcript,
        used: Sequence[UsedBullet],
        previous: Sequence[Insight],
    ) -> str:
        """Return the prompt for lessons; `previous` are those of the last completed iteration (R-24 to R-27)."""
        before = "\n".join(f"- {insight.key_insight}" for insight in previous)
        values = {
            **self._outcome(request),
            "reasoning_steps": self._steps(request, transcript),
            "used_bullets": self._format_bullets(used),
            "previous_insights": before,
            "previous_insights_section": before,
        }
        return self._insights.fill_first([request.dataset, "default"], values)

    def build_bullet_prompt(self, request: ReflectionRequest, bullet: UsedBullet) -> str:
        """Return the prompt for a vote on one bullet (R-28)."""
        values = {
            **self._outcome(request),
            "bullet_id": bullet.id,
            "bullet_section": bullet.section,
            "bullet_content": bullet.content,
        }
        return self._bullet.fill_first(["bullet_evaluation"], values)

    def build_objection(self, unknown: Sequence[int], numbers: range) -> str:
        """Return the prompt that rejects lessons with unknown steps."""
        return self._texts.unknown_steps.format(
            unknown=", ".join(map(str, unknown)), first=numbers.start, last=numbers.stop - 1
        )

    def _outcome(self, request: ReflectionRequest) -> dict[str, str]:
        return {
            "query": self._shorten(request.trajectory.query),
            "generated_answer": self._shorten(request.trajectory.generated_answer),
            "ground_truth": self._shorten(request.ground_truth),
            "test_report": self._shorten(request.test_report),
        }

    def _shorten(self, text: str) -> str:
        if len(text) <= self._text_chars:
            return text
        half = self._text_chars // 2
        return f"{text[:half]}\n{self._texts.cut.format(count=len(text) - 2 * half)}\n{text[-half:]}"

    def _steps(self, request: ReflectionRequest, transcript: Transcript) -> str:
        """Return the numbered steps (R-25); for a recorded log the log, with notes on shortened and omitted steps."""
        parts = [transcript.text]
        if request.trajectory.steps and request.trajectory.reasoning_steps:
            thoughts = enumerate(request.trajectory.reasoning_steps, 1)
            parts.insert(0, "\n".join(f"{number}. {thought}" for number, thought in thoughts))
            parts.insert(1, self._texts.log)
        if transcript.shortened:
            parts.append(self._texts.shortened.format(steps=format_ranges(transcript.shortened)))
        if transcript.omitted:
            parts.append(
                self._texts.omitted.format(steps=format_ranges(transcript.omitted), count=len(transcript.omitted))
            )
        return "\n".join(parts)

    def _format_bullets(self, bullets: Sequence[UsedBullet]) -> str:
        """Return the bullets in the format of C-50."""
        formatted = "\n\n".join(f"[{bullet.id}] {bullet.section}\n{bullet.content}" for bullet in bullets)
        return formatted or self._texts.no_bullets
