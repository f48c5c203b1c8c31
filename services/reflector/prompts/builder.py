"""Builds the prompts of the model-based reflector (R-22 to R-28)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from libs.prompts.fences import PROCESS_KEY
from libs.prompts.language import LanguageSetting
from libs.prompts.templates import PromptTemplates
from services.reflector.domain.language import detect_language
from services.reflector.domain.reduction import Transcript
from services.reflector.domain.reflection import Insight, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.prompts.record import PromptRecord, build_blocks, describe_reduction
from services.reflector.prompts.texts import PROMPT_TEXTS, ReflectorTexts

Message = tuple[str, str]
"""Role (`system`, `human` or `ai`) and text."""


class ReflectorPrompts:
    """Builds prompts from `<folder>/<dataset>.txt`, `<folder>/default.txt` or the built-in texts (R-22)."""

    def __init__(self, folder: Path | None, language: LanguageSetting, key: bytes = PROCESS_KEY) -> None:
        """Use templates in `folder` if it exists; None selects the built-in texts.

        `auto` is the language of the trajectory. `key` makes the tags around records unpredictable to their content.
        """
        self._folder = folder
        self._language: LanguageSetting = language
        self._key = key

    def get_texts(self, request: ReflectionRequest) -> ReflectorTexts:
        """Return the texts in the language of the setting or of the trajectory."""
        setting = self._language
        return PROMPT_TEXTS[detect_language(request.trajectory) if setting == "auto" else setting]

    def build_messages(
        self, request: ReflectionRequest, record: PromptRecord, previous: Sequence[Insight]
    ) -> list[Message]:
        """Return the system message, which never varies, and the user message with the record of the trajectory.

        `previous` are the lessons of the last completed iteration.
        """
        texts = self.get_texts(request)
        closing = texts.closing.format(lesson_language=texts.languages[detect_language(request.trajectory)])
        parts = build_blocks(request, record, previous, texts, self._key)
        ending = f"{texts.refine}\n{closing}" if previous else closing
        return [("system", texts.system.strip()), ("human", "\n\n".join([*parts, ending]))]

    def build_own_prompt(
        self,
        request: ReflectionRequest,
        record: PromptRecord,
        transcript: Transcript,
        used: Sequence[UsedBullet],
        previous: Sequence[Insight],
    ) -> str | None:
        """Return the prompt for lessons from a template of the user, None without one (R-24 to R-27)."""
        if self._folder is None or not self._folder.is_dir():
            return None
        texts = self.get_texts(request)
        before = "\n".join(f"- {insight.key_insight}" for insight in previous)
        values = {
            **self._describe_outcome(record),
            "reasoning_steps": self._format_steps(request, transcript, texts),
            "used_bullets": _format_bullets(used) or texts.no_bullets,
            "lesson_language": texts.languages[detect_language(request.trajectory)],
            "previous_insights": before,
            "previous_insights_section": before,
            "outcome": record.outcome,
            "error_message": record.error_message,
            "siblings": "\n\n".join(record.siblings) or texts.no_siblings,
            "tools": record.tools or texts.no_tools,
            "playbook": _format_bullets(record.playbook) or texts.no_bullets,
            "served": " ".join(f"[{bullet_id}]" for bullet_id in record.served),
            "cited": " ".join(f"[{bullet_id}]" for bullet_id in record.cited),
        }
        return PromptTemplates(self._folder, "").fill_from_folder([request.dataset, "default"], values)

    def has_own_bullet_prompt(self) -> bool:
        """Return whether the user has a template for votes."""
        return self._folder is not None and (self._folder / "bullet_evaluation.txt").is_file()

    def build_bullet_prompt(self, request: ReflectionRequest, record: PromptRecord, bullet: UsedBullet) -> str:
        """Return the prompt for a vote on one bullet, for users with templates of their own (R-28)."""
        values = {
            **self._describe_outcome(record),
            "outcome": record.outcome,
            "bullet_id": bullet.id,
            "bullet_section": bullet.section,
            "bullet_content": bullet.content,
        }
        return PromptTemplates(self._folder, self.get_texts(request).bullet).fill_first(["bullet_evaluation"], values)

    def build_objection(self, request: ReflectionRequest, unknown: Sequence[int], numbers: range) -> str:
        """Return the prompt that rejects lessons with unknown steps."""
        return self.get_texts(request).unknown_steps.format(
            unknown=", ".join(map(str, unknown)), first=numbers.start, last=numbers.stop - 1
        )

    def _describe_outcome(self, record: PromptRecord) -> dict[str, str]:
        return {
            "query": record.query,
            "generated_answer": record.answer,
            "ground_truth": record.ground_truth,
            "test_report": record.test_report,
        }

    def _format_steps(self, request: ReflectionRequest, transcript: Transcript, texts: ReflectorTexts) -> str:
        """Return the numbered steps (R-25); for a recorded log the log, with notes on shortened and omitted steps."""
        parts = [transcript.text]
        if request.trajectory.steps and request.trajectory.reasoning_steps:
            thoughts = enumerate(request.trajectory.reasoning_steps, 1)
            parts.insert(0, "\n".join(f"{number}. {thought}" for number, thought in thoughts))
            parts.insert(1, texts.log)
        return "\n".join([*parts, *describe_reduction(transcript, texts)])


def _format_bullets(bullets: Sequence[UsedBullet]) -> str:
    """Return the bullets in the format of C-50."""
    return "\n\n".join(f"[{bullet.id}] {bullet.section}\n{bullet.content}" for bullet in bullets)
