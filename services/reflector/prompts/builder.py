"""The prompts of the model-based reflector, and the values that fill them (R-22 to R-28)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from libs.prompts.templates import PromptTemplates
from services.reflector.domain.reduction import Transcript, ranges
from services.reflector.domain.reflection import Bullet, Insight
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.prompts.texts import PromptTexts


class ReflectorPrompts:
    """Builds prompts from `<folder>/<dataset>.txt`, `<folder>/default.txt` or the built-in texts (R-22)."""

    def __init__(self, folder: Path | None, texts: PromptTexts, text_chars: int) -> None:
        """`folder` may be missing, or None for the built-in texts alone.

        Of an answer, a report or a question longer than `text_chars` the middle is left out, and the prompt says so.
        """
        self._text_chars = text_chars
        self._texts = texts
        self._insights = PromptTemplates(folder, texts.insights)
        self._bullet = PromptTemplates(folder, texts.bullet)

    def for_insights(
        self,
        request: ReflectionRequest,
        transcript: Transcript,
        used: Sequence[Bullet],
        previous: Sequence[Insight],
    ) -> str:
        """Asks for the lessons of a run; `previous` are those of the last completed iteration (R-24 to R-27)."""
        before = "\n".join(f"- {insight.key_insight}" for insight in previous)
        values = {
            **self._outcome(request),
            "reasoning_steps": self._steps(request, transcript),
            "used_bullets": self._listed(used),
            "previous_insights": before,
            "previous_insights_section": before,
        }
        return self._insights.filled([request.dataset, "default"], values)

    def for_bullet(self, request: ReflectionRequest, bullet: Bullet) -> str:
        """Asks whether one bullet helped (R-28)."""
        values = {
            **self._outcome(request),
            "bullet_id": bullet.id,
            "bullet_section": bullet.section,
            "bullet_content": bullet.content,
        }
        return self._bullet.filled(["bullet_evaluation"], values)

    def objection(self, unknown: Sequence[int], numbers: range) -> str:
        """Asks again after lessons that rest on steps which do not exist."""
        return self._texts.unknown_steps.format(
            unknown=", ".join(map(str, unknown)), first=numbers.start, last=numbers.stop - 1
        )

    def _outcome(self, request: ReflectionRequest) -> dict[str, str]:
        return {
            "query": self._fitted(request.trajectory.query),
            "generated_answer": self._fitted(request.trajectory.generated_answer),
            "ground_truth": self._fitted(request.ground_truth),
            "test_report": self._fitted(request.test_report),
        }

    def _fitted(self, text: str) -> str:
        if len(text) <= self._text_chars:
            return text
        half = self._text_chars // 2
        return f"{text[:half]}\n{self._texts.cut.format(count=len(text) - 2 * half)}\n{text[-half:]}"

    def _steps(self, request: ReflectionRequest, transcript: Transcript) -> str:
        """The numbered steps (R-25); of a recorded log the log, and what was left out of it."""
        parts = [transcript.text]
        if request.trajectory.steps and request.trajectory.reasoning_steps:
            thoughts = enumerate(request.trajectory.reasoning_steps, 1)
            parts.insert(0, "\n".join(f"{number}. {thought}" for number, thought in thoughts))
            parts.insert(1, self._texts.log)
        if transcript.shorten:
            parts.append(self._texts.shorten.format(steps=ranges(transcript.shorten)))
        if transcript.omitted:
            parts.append(self._texts.omitted.format(steps=ranges(transcript.omitted), count=len(transcript.omitted)))
        return "\n".join(parts)

    def _listed(self, bullets: Sequence[Bullet]) -> str:
        """Bullets in the format of C-50."""
        listed = "\n\n".join(f"[{bullet.id}] {bullet.section}\n{bullet.content}" for bullet in bullets)
        return listed or self._texts.no_bullets
