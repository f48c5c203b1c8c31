"""The built-in templates of the curation prompt, and the values of its placeholders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from services.curator.domain.curation import Lesson, SectionDefinition
from services.curator.domain.playbook import Bullet

BUILT_IN: Mapping[str, str] = {
    path.stem: path.read_text(encoding="utf-8") for path in Path(__file__).with_name("templates").glob("*.txt")
}
"""The built-in templates by language (C-53)."""

NO_INSIGHTS = "(Insightsはありません)"
NO_BULLETS = "(Bulletはありません)"
NO_SECTIONS = "(セクション定義はありません)"

OUTLINE: Mapping[str, str] = {
    "ja": "（{total}件のBulletのうち、関連する{shown}件を上に示した。残りの概要。これらはUPDATEもDELETEもできない）",
    "en": "(Above are the {shown} of {total} bullets that matter here. The others in outline; they can be neither "
    "updated nor deleted)",
}
"""The heading of the outline of a large playbook, by language."""

OUTLINE_CHARS = 6_000
OUTLINE_SECTIONS = 50
_FIRST_CHARS = 48


def prompt_values(
    insights: Sequence[Lesson],
    bullets: Sequence[Bullet],
    sections: Sequence[SectionDefinition],
    others: Sequence[Bullet] = (),
    heading: str = OUTLINE["ja"],
) -> dict[str, str]:
    """Return the values of the placeholders `{insights}`, `{bullets}` and `{sections}` (C-49 to C-51).

    `others` are the bullets of a large playbook that the prompt contains only as an outline.
    """
    shown = "\n\n".join(f"[{bullet.id}] {bullet.section}\n{bullet.content}" for bullet in bullets) or NO_BULLETS
    if others:
        title = heading.format(total=len(bullets) + len(others), shown=len(bullets))
        shown = f"{shown}\n\n{title}\n{outline(others)}"
    return {
        "insights": "\n".join(insight.key_insight for insight in insights) or NO_INSIGHTS,
        "bullets": shown,
        "sections": "\n".join(f"- {section.name}: {section.description}" for section in sections) or NO_SECTIONS,
    }


def outline(bullets: Sequence[Bullet]) -> str:
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
