"""Build the curation prompt from the template file of a user, else from the built-in texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from libs.llm.tokens import estimate_tokens
from libs.prompts.fences import PROCESS_KEY, fence
from libs.prompts.language import LanguageSetting, choose_language, detect_language
from libs.prompts.templates import PromptTemplates
from services.curator.domain.curation import Lesson, Reflection, SectionDefinition
from services.curator.domain.playbook import Bullet, validate_dataset_name
from services.curator.domain.review import PendingChange
from services.curator.prompts.texts import PROMPT_TEXTS, CuratorTexts, build_outline, build_prompt_values

QUERY_CHARS = 4_000
READ_TOKENS = 8_000
"""Tokens of a playbook from which on agents no longer get all of it."""


@dataclass(frozen=True, slots=True)
class Material:
    """The data of a prompt: the reflection, the bullets, the sections, and the lessons that wait by short ids.

    `others` are the bullets of a large playbook of which the prompt has only an outline. Each lesson gets at most
    `lesson_chars` characters.
    """

    reflection: Reflection
    bullets: Sequence[Bullet] = ()
    others: Sequence[Bullet] = ()
    sections: Sequence[SectionDefinition] = ()
    waiting: Mapping[str, PendingChange] = field(default_factory=dict)
    lesson_chars: int = 8_000


class CuratorPromptBuilder:
    """Fills `<prompts_dir>/<dataset>.txt`, else `<prompts_dir>/default.txt`; else uses the built-in texts (C-44)."""

    def __init__(
        self,
        prompts_dir: str | Path = "prompts/curator",
        language: LanguageSetting = "ja",
        key: bytes = PROCESS_KEY,
    ) -> None:
        """`auto` is the language of the lessons. `key` makes the codes of the tags around data."""
        self._folder = Path(prompts_dir)
        self._language: LanguageSetting = language
        self._key = key

    def build_own(self, material: Material, dataset: str) -> str | None:
        """Return the prompt from a template of the user, None without one; braces in the values stay (C-47).

        Raises InvalidDatasetName.
        """
        names = (validate_dataset_name(dataset), "default")
        if not self._folder.is_dir():
            return None
        texts = self._choose_texts(material)
        reflection = material.reflection
        values = {
            **build_prompt_values(reflection.insights, material.bullets, material.sections, material.others, texts),
            "query": reflection.query[:QUERY_CHARS],
            "outcome": _describe_outcome(reflection, texts),
            "lessons": self._format_lessons(material, texts),
            "waiting": _format_waiting(material) or texts.nothing_waits,
        }
        return PromptTemplates(self._folder, "").fill_from_folder(names, values)

    def build_messages(self, material: Material) -> list[tuple[str, str]]:
        """Return the system message, which never varies, and the user message, whose first parts vary least."""
        texts = self._choose_texts(material)
        reflection = material.reflection
        playbook = "\n".join(_format_bullet(bullet) for bullet in material.bullets) or texts.no_bullets
        if material.others:
            count = len(material.bullets)
            title = texts.outline.format(total=count + len(material.others), shown=count)
            playbook = f"{playbook}\n\n{title}\n{build_outline(material.others)}"
        blocks = [
            ("sections", self._format_sections(material, texts)),
            ("playbook", playbook),
            ("waiting", _format_waiting(material) or texts.nothing_waits),
            ("size", self._format_size(material, texts)),
            ("task", reflection.query[:QUERY_CHARS]),
            ("outcome", _describe_outcome(reflection, texts)),
            ("lessons", self._format_lessons(material, texts) or texts.no_insights),
        ]
        parts = [fence(tag, text, self._key) for tag, text in blocks if text.strip()]
        language = detect_language(*(insight.key_insight for insight in reflection.insights))
        closing = texts.closing.format(language=texts.languages[language])
        return [("system", texts.system.strip()), ("human", "\n\n".join([*parts, closing]))]

    def _choose_texts(self, material: Material) -> CuratorTexts:
        lessons = (insight.key_insight for insight in material.reflection.insights)
        return PROMPT_TEXTS[choose_language(self._language, *lessons)]

    def _format_sections(self, material: Material, texts: CuratorTexts) -> str:
        """Return the defined sections and those in use, each with its description and the number of its bullets."""
        counts: dict[str, int] = {section.name: 0 for section in material.sections}
        for bullet in (*material.bullets, *material.others):
            counts[bullet.section] = counts.get(bullet.section, 0) + 1
        descriptions = {section.name: section.description for section in material.sections}
        lines = (f"- {name} ({count}): {descriptions.get(name, '')}".rstrip(": ") for name, count in counts.items())
        return "\n".join(lines) or f"{texts.no_sections}\n{texts.first_sections}"

    def _format_size(self, material: Material, texts: CuratorTexts) -> str:
        bullets = [*material.bullets, *material.others]
        tokens = sum(estimate_tokens(bullet.content) for bullet in bullets)
        return texts.size.format(bullets=len(bullets), tokens=tokens, limit=READ_TOKENS)

    def _format_lessons(self, material: Material, texts: CuratorTexts) -> str:
        lessons = enumerate(material.reflection.insights, 1)
        return "\n".join(_format_lesson(number, lesson, material.lesson_chars, texts) for number, lesson in lessons)


def _format_bullet(bullet: Bullet) -> str:
    sources = len(bullet.sources)
    counts = f"sources {sources}, helpful {bullet.helpful}, harmful {bullet.harmful}"
    return f"[{bullet.id}] {bullet.section} | {counts} | {bullet.content}"


def _format_waiting(material: Material) -> str:
    return "\n".join(f"[{short_id}] {change.proposal.delta.content}" for short_id, change in material.waiting.items())


def _format_lesson(number: int, lesson: Lesson, chars: int, texts: CuratorTexts) -> str:
    parts = [f"{number}. {lesson.key_insight}"]
    fields = {
        "happened": lesson.error_identification,
        "cause": lesson.root_cause_analysis,
        "better": lesson.correct_approach,
        "kind": lesson.kind,
        "confirms": f"[{lesson.confirms}]" if lesson.confirms else "",
        "contradicts": f"[{lesson.contradicts}]" if lesson.contradicts else "",
        "evidence": ", ".join(map(str, lesson.steps)),
    }
    for name, value in fields.items():
        if value.strip():
            parts.append(f"   {texts.lesson[name]}: {value[: chars // 3]}")
    return "\n".join(parts)


def _describe_outcome(reflection: Reflection, texts: CuratorTexts) -> str:
    status = texts.success if reflection.is_success else texts.failure
    return texts.outcome.format(status=status, source=texts.sources.get(reflection.signal, texts.sources["unknown"]))
