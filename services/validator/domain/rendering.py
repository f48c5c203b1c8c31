"""Valid reports as text for people (spec V-47 to V-49)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.validator.domain.findings import display_text

Report = Mapping[str, Any]


def render_organizer(report: Report) -> str:
    """Return the summary, then the proposals of each sort under a heading (V-47)."""
    blocks = [_format_text(report, "summary")]
    sections = (
        ("分解案", "decomposition_proposals", _format_decomposition),
        ("グループ案", "grouping_proposals", _format_grouping),
        ("関連案", "relation_proposals", _format_relation),
    )
    for heading, key, lines_of in sections:
        proposals = _list_objects(report, key)
        if proposals:
            blocks.append("\n".join([f"## {heading}", *(lines_of(proposal) for proposal in proposals)]))
    return "\n\n".join(blocks)


def _format_decomposition(proposal: Report) -> str:
    first = f"- {_format_target(proposal)}: {_format_text(proposal, 'reason')}"
    children = [
        f"  - {_format_text(child, 'title')}: {_format_text(child, 'context')}"
        for child in _list_objects(proposal, "suggested_children")
    ]
    return "\n".join([first, *children])


def _format_grouping(proposal: Report) -> str:
    members = _join(proposal, "node_ids", ", ")
    return f"- {_format_text(proposal, 'group_label')}: {_format_text(proposal, 'reason')} ({members})"


def _format_relation(proposal: Report) -> str:
    source, target, kind, reason = (
        _format_text(proposal, name) for name in ("from_node_id", "to_node_id", "relation_type", "reason")
    )
    return f"- {source} → {target} ({kind}): {reason}"


def render_advisor(report: Report) -> str:
    """Return target and status, summary, first decision, criteria and options, as blocks (V-48)."""
    blocks = [
        f"対象: {_format_target(report)}\n現在の状態: {_format_text(report, 'current_status')}",
        _format_text(report, "summary"),
        f"最初に決めること: {_format_text(report, 'next_decision')}",
    ]
    criteria = _list_objects(report, "criteria")
    if criteria:
        lines = [
            f"- {_format_text(criterion, 'name')}: {_format_text(criterion, 'description')}" for criterion in criteria
        ]
        blocks.append("\n".join(["## 判断基準", *lines]))
    blocks.extend(_format_option(option) for option in _list_objects(report, "options"))
    return "\n\n".join(blocks)


def _format_option(option: Report) -> str:
    description = _format_text(option, "description")
    return "\n".join(
        [
            f"## {_format_text(option, 'label')}",
            *([description] if description else []),
            f"- 次の一手: {_format_text(option, 'next_action')}",
            f"- 必要な情報: {_format_text(option, 'necessary_info')}",
            f"- 判断の目安: {_format_text(option, 'criteria_note')}",
            f"- リスク: {_join(option, 'risks', '; ')}",
        ]
    )


def _format_target(item: Report) -> str:
    node_id = _format_text(item, "target_node_id")
    title = node_id if item.get("target_title") is None else _format_text(item, "target_title")
    return f"{title} ({node_id})"


def _format_text(item: Report, name: str) -> str:
    return display_text(item.get(name))


def _join(item: Report, name: str, separator: str) -> str:
    values = item.get(name)
    return separator.join(display_text(value) for value in values) if isinstance(values, list) else ""


def _list_objects(item: Report, name: str) -> list[Report]:
    values = item.get(name)
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
