"""The measured material: a valid report of 3 KB, and a run whose first answer is broken. Needs no package."""

from __future__ import annotations

from typing import Any

IDS = [f"n{number}" for number in range(20)]
REASON = "範囲が広く担当も分かれているため、いったん分けて考えられます。期限の近いものから順に見直す案があります"
PHRASES = ("べき", "してください", "が必要です")


def report() -> dict[str, Any]:
    """Four proposals of each sort; no rule finds anything."""
    children = [{"title": "下調べ", "context": "現状を書き出す"}, {"title": "整理", "context": "論点を並べる"}]
    return {
        "decomposition_proposals": [
            {"target_node_id": node, "target_title": "企画", "reason": REASON, "suggested_children": children}
            for node in IDS[:4]
        ],
        "grouping_proposals": [{"group_label": "企画関連", "reason": REASON, "node_ids": IDS[:4]} for _ in range(4)],
        "relation_proposals": [
            {"from_node_id": "n0", "to_node_id": node, "relation_type": "depends_on", "reason": REASON}
            for node in IDS[1:5]
        ],
        "summary": "まず" + REASON,
    }


def broken_report() -> dict[str, Any]:
    """Return the same with one unknown id."""
    broken = report()
    broken["relation_proposals"][2]["from_node_id"] = "zz"
    return broken


DASHBOARD = {"trays": {"in_progress": [{"id": node, "title": f"作業 {node}", "status": "IN_PROGRESS"} for node in IDS]}}
