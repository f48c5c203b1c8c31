"""What stands in a curation prompt: the built-in template in two languages, and how its parts are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.curator.domain.curation import Insight, SectionDefinition
from services.curator.domain.playbook import Bullet

JAPANESE = """\
あなたはPlaybook（知識ベース）のキュレーターである.
以下のInsights（教訓）を分析し、Playbookへの更新操作を決定せよ.

## Insights
{insights}

## 現在のPlaybook
{bullets}

## 利用可能なセクション
{sections}

## 指示
- 各Insightについて、以下の操作を決定せよ:
  - ADD: 新しい知識として追加（既存Bulletと重複しない場合）
  - UPDATE: 既存Bulletの内容を更新（類似するBulletが存在する場合）
  - DELETE: 不要なBulletを削除（矛盾する知識がある場合）
- 既存Bulletと意味的に類似するInsightはUPDATE操作とし、重複追加を避けよ
- ADDの場合は利用可能なセクションから適切なものを選択せよ

## 出力形式
以下のJSON形式で回答せよ:
{{
  "deltas": [
    {{
      "type": "ADD" | "UPDATE" | "DELETE",
      "section": "セクション名",
      "bullet_id": "既存BulletのID（UPDATE/DELETEの場合）またはnull",
      "content": "Bulletの内容",
      "reasoning": "この操作を選択した理由"
    }}
  ]
}}
"""

ENGLISH = """\
You are the curator of a playbook (a knowledge base).
Study the insights (lessons) below and decide how the playbook is to be edited.

## Insights
{insights}

## The playbook now
{bullets}

## Available sections
{sections}

## Instructions
- Decide for each insight:
  - ADD: new knowledge (no existing bullet says it)
  - UPDATE: better content for an existing bullet (a similar one exists)
  - DELETE: removal of a bullet (it contradicts what is known now)
- An insight that means the same as an existing bullet is an UPDATE; never add a duplicate
- For ADD choose a fitting section from those available

## Output
Answer with this JSON:
{{
  "deltas": [
    {{
      "type": "ADD" | "UPDATE" | "DELETE",
      "section": "name of the section",
      "bullet_id": "id of the existing bullet (UPDATE and DELETE), or null",
      "content": "content of the bullet",
      "reasoning": "why this edit"
    }}
  ]
}}
"""

BUILT_IN: Mapping[str, str] = {"ja": JAPANESE, "en": ENGLISH}

NO_INSIGHTS = "(Insightsはありません)"
NO_BULLETS = "(Bulletはありません)"
NO_SECTIONS = "(セクション定義はありません)"

OUTLINE: Mapping[str, str] = {
    "ja": "（{total}件のBulletのうち、関連する{shown}件を上に示した。残りの概要。これらはUPDATEもDELETEもできない）",
    "en": "(Above are the {shown} of {total} bullets that matter here. The others in outline; they can be neither "
    "updated nor deleted)",
}
"""Says what the outline of a large playbook is, by language."""

OUTLINE_CHARS = 6_000
OUTLINE_SECTIONS = 50
_FIRST_CHARS = 48


def prompt_values(
    insights: Sequence[Insight],
    bullets: Sequence[Bullet],
    sections: Sequence[SectionDefinition],
    others: Sequence[Bullet] = (),
    heading: str = OUTLINE["ja"],
) -> dict[str, str]:
    """The values of the placeholders `{insights}`, `{bullets}` and `{sections}` (C-49 to C-51).

    `others` are the bullets of a large playbook that are not shown; their outline follows those that are.
    """
    shown = "\n\n".join(f"[{one.id}] {one.section}\n{one.content}" for one in bullets) or NO_BULLETS
    if others:
        told = heading.format(total=len(bullets) + len(others), shown=len(bullets))
        shown = f"{shown}\n\n{told}\n{outline(others)}"
    return {
        "insights": "\n".join(insight.key_insight for insight in insights) or NO_INSIGHTS,
        "bullets": shown,
        "sections": "\n".join(f"- {one.name}: {one.description}" for one in sections) or NO_SECTIONS,
    }


def outline(bullets: Sequence[Bullet]) -> str:
    """Sections with their numbers of bullets, the largest first, and as many ids with first words as there is room."""
    by_section: dict[str, list[Bullet]] = {}
    for bullet in bullets:
        by_section.setdefault(bullet.section, []).append(bullet)
    largest = sorted(by_section, key=lambda section: -len(by_section[section]))[:OUTLINE_SECTIONS]
    room = OUTLINE_CHARS // len(largest) if largest else 0
    lines = [_outlined(section, by_section[section], room) for section in largest]
    rest = len(by_section) - len(largest)
    return "\n".join([*lines, f"- … (+{rest})"] if rest else lines)


def _outlined(section: str, bullets: Sequence[Bullet], room: int) -> str:
    line = f"- {section} ({len(bullets)}):"
    for place, bullet in enumerate(bullets):
        words = " ".join(bullet.content.split())
        part = f" [{bullet.id}] {words[:_FIRST_CHARS]}{'…' if len(words) > _FIRST_CHARS else ''};"
        if len(line) + len(part) > room:
            return f"{line} … (+{len(bullets) - place})"
        line += part
    return line.removesuffix(";")
