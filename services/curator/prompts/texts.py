"""The texts of the curator's prompt by language, in `texts.toml`, and the values of placeholders in templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from libs.prompts.language import Language, load_texts
from services.curator.domain.curation import Lesson, SectionDefinition
from services.curator.domain.playbook import Bullet


@dataclass(frozen=True, slots=True)
class CuratorTexts:
    """The texts of one language. `lesson` has the parts of a lesson, `sources` the kinds of evidence for an outcome."""

    system: str
    closing: str
    size: str
    outcome: str
    success: str
    failure: str
    nothing_waits: str
    lesson: Mapping[str, str]
    sources: Mapping[str, str]
    languages: Mapping[Language, str]
    no_insights: str
    no_bullets: str
    no_sections: str
    first_sections: str
    outline: str


PROMPT_TEXTS = load_texts(Path(__file__).with_suffix(".toml"), CuratorTexts)

OUTLINE_CHARS = 6_000
OUTLINE_SECTIONS = 50
_FIRST_CHARS = 48


def build_prompt_values(
    insights: Sequence[Lesson],
    bullets: Sequence[Bullet],
    sections: Sequence[SectionDefinition],
    others: Sequence[Bullet],
    texts: CuratorTexts,
) -> dict[str, str]:
    """Return the values of the placeholders `{insights}`, `{bullets}` and `{sections}` (C-49 to C-51).

    `others` are the bullets of a large playbook that the prompt contains only as an outline.
    """
    shown = "\n\n".join(f"[{bullet.id}] {bullet.section}\n{bullet.content}" for bullet in bullets) or texts.no_bullets
    if others:
        title = texts.outline.format(total=len(bullets) + len(others), shown=len(bullets))
        shown = f"{shown}\n\n{title}\n{build_outline(others)}"
    return {
        "insights": "\n".join(insight.key_insight for insight in insights) or texts.no_insights,
        "bullets": shown,
        "sections": "\n".join(f"- {section.name}: {section.description}" for section in sections) or texts.no_sections,
    }


def build_outline(bullets: Sequence[Bullet]) -> str:
    """Return the sections, largest first, with the numbers, ids and first words of their bullets."""
    by_section: dict[str, list[Bullet]] = {}
    for bullet in bullets:
        by_section.setdefault(bullet.section, []).append(bullet)
    largest = sorted(by_section, key=lambda section: -len(by_section[section]))[:OUTLINE_SECTIONS]
    max_chars = OUTLINE_CHARS // len(largest) if largest else 0
    lines = [_outline_section(section, by_section[section], max_chars) for section in largest]
    rest = len(by_section) - len(largest)
    return "\n".join([*lines, f"- … (+{rest})"] if rest else lines)


def _outline_section(section: str, bullets: Sequence[Bullet], max_chars: int) -> str:
    line = f"- {section} ({len(bullets)}):"
    for index, bullet in enumerate(bullets):
        words = " ".join(bullet.content.split())
        part = f" [{bullet.id}] {words[:_FIRST_CHARS]}{'…' if len(words) > _FIRST_CHARS else ''};"
        if len(line) + len(part) > max_chars:
            return f"{line} … (+{len(bullets) - index})"
        line += part
    return line.removesuffix(";")
