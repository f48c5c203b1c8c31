"""Builds the prompts of the model-based reflector (R-22 to R-28)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from libs.prompts.language import LanguageSetting
from libs.prompts.templates import PromptTemplates
from services.reflector.domain.language import detect_language
from services.reflector.domain.reduction import Transcript, format_ranges
from services.reflector.domain.reflection import Insight, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.prompts.texts import PROMPT_TEXTS, ReflectorTexts


class ReflectorPrompts:
    """Builds prompts from `<folder>/<dataset>.txt`, `<folder>/default.txt` or the built-in texts (R-22)."""

    def __init__(self, folder: Path | None, language: LanguageSetting, text_chars: int) -> None:
        """Use templates in `folder` if it exists; None selects the built-in texts. `auto`: as the trajectory.

        An answer, report or question longer than `text_chars` is shortened in the middle, with a note in the
        prompt.
        """
        self._text_chars = text_chars
        self._folder = folder
        self._language: LanguageSetting = language

    def _texts(self, request: ReflectionRequest) -> ReflectorTexts:
        setting = self._language
        return PROMPT_TEXTS[detect_language(request.trajectory) if setting == "auto" else setting]

    def build_insights_prompt(
        self,
        request: ReflectionRequest,
        transcript: Transcript,
        used: Sequence[UsedBullet],
        previous: Sequence[Insight],
    ) -> str:
        """Return the prompt for lessons; `previous` are those of the last completed iteration (R-24 to R-27)."""
        texts = self._texts(request)
        before = "\n".join(f"- {insight.key_insight}" for insight in previous)
        values = {
            **self._describe_outcome(request, texts),
            "reasoning_steps": self._format_steps(request, transcript, texts),
            "used_bullets": _format_bullets(used) or texts.no_bullets,
            "lesson_language": texts.languages[detect_language(request.trajectory)],
            "previous_insights": before,
            "previous_insights_section": before,
        }
        return PromptTemplates(self._folder, texts.insights).fill_first([request.dataset, "default"], values)

    def build_bullet_prompt(self, request: ReflectionRequest, bullet: UsedBullet) -> str:
        """Return the prompt for a vote on one bullet (R-28)."""
        texts = self._texts(request)
        values = {
            **self._describe_outcome(request, texts),
            "bullet_id": bullet.id,
            "bullet_section": bullet.section,
            "bullet_content": bullet.content,
        }
        return PromptTemplates(self._folder, texts.bullet).fill_first(["bullet_evaluation"], values)

    def build_objection(self, request: ReflectionRequest, unknown: Sequence[int], numbers: range) -> str:
        """Return the prompt that rejects lessons with unknown steps."""
        return self._texts(request).unknown_steps.format(
            unknown=", ".join(map(str, unknown)), first=numbers.start, last=numbers.stop - 1
        )

    def _describe_outcome(self, request: ReflectionRequest, texts: ReflectorTexts) -> dict[str, str]:
        return {
            "query": self._shorten(request.trajectory.query, texts),
            "generated_answer": self._shorten(request.trajectory.generated_answer, texts),
            "ground_truth": self._shorten(request.ground_truth, texts),
            "test_report": self._shorten(request.test_report, texts),
        }

    def _shorten(self, text: str, texts: ReflectorTexts) -> str:
        if len(text) <= self._text_chars:
            return text
        half = self._text_chars // 2
        return f"{text[:half]}\n{texts.cut.format(count=len(text) - 2 * half)}\n{text[-half:]}"

    def _format_steps(self, request: ReflectionRequest, transcript: Transcript, texts: ReflectorTexts) -> str:
        """Return the numbered steps (R-25); for a recorded log the log, with notes on shortened and omitted steps."""
        parts = [transcript.text]
        if request.trajectory.steps and request.trajectory.reasoning_steps:
            thoughts = enumerate(request.trajectory.reasoning_steps, 1)
            parts.insert(0, "\n".join(f"{number}. {thought}" for number, thought in thoughts))
            parts.insert(1, texts.log)
        if transcript.shortened:
            parts.append(texts.shortened.format(steps=format_ranges(transcript.shortened)))
        if transcript.omitted:
            parts.append(texts.omitted.format(steps=format_ranges(transcript.omitted), count=len(transcript.omitted)))
        return "\n".join(parts)


def _format_bullets(bullets: Sequence[UsedBullet]) -> str:
    """Return the bullets in the format of C-50."""
    return "\n\n".join(f"[{bullet.id}] {bullet.section}\n{bullet.content}" for bullet in bullets)
