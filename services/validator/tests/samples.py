"""The specification's sample reports (section 4), and reports of any size made from a seed."""

from __future__ import annotations

import random
from typing import Any

Report = dict[str, Any]


def kid(title: str = "下調べ", context: str = "現状を書き出す") -> Report:
    return {"title": title, "context": context}


def option(label: str, **extra: Any) -> Report:
    return {
        "label": label,
        "next_action": "担当者に確認する",
        "necessary_info": "見積の内訳",
        "criteria_note": "費用と納期で比べる",
        "risks": ["納期が延びる"],
        **extra,
    }


def organizer(summary: str = "まず状況を確認する案があります。", **arrays: list[Any]) -> Report:
    return {
        "decomposition_proposals": [],
        "grouping_proposals": [],
        "relation_proposals": [],
        "summary": summary,
        **arrays,
    }


def decomposition(node_id: str = "n1", reason: str = "範囲が広いため分けて考えられます", **extra: Any) -> Report:
    return {
        "target_node_id": node_id,
        "target_title": "企画",
        "reason": reason,
        "suggested_children": [kid(), kid("整理", "論点を並べる")],
        **extra,
    }


def grouping(node_ids: list[Any], reason: str = "同じ企画に属します") -> Report:
    return {"group_label": "企画関連", "reason": reason, "node_ids": node_ids}


def relation(source: Any = "n1", target: Any = "n2", reason: str = "結果を使います") -> Report:
    return {"from_node_id": source, "to_node_id": target, "relation_type": "depends_on", "reason": reason}


def advisor(options: list[Any] | None = None, **fields: Any) -> Report:
    return {
        "target_node_id": "n1",
        "target_title": "見積の承認",
        "current_status": "NEEDS_DECISION",
        "options": [option("A案"), option("B案")] if options is None else options,
        "criteria": [{"name": "費用", "description": "総額"}, {"name": "納期", "description": "完了日"}],
        "next_decision": "どの費用までを認めるか",
        "summary": "二つの案を並べました。",
        **fields,
    }


def advisor_without_node() -> Report:
    report = advisor([], target_node_id="", target_title="", current_status="", next_decision="対象のノードを先に選ぶ")
    del report["criteria"]
    return report


ORGANIZER_SAMPLES: dict[str, tuple[list[str], Report, int]] = {
    "O1": ([], organizer("まずノードを追加すると整理を始められます。"), 0),
    "O2": (["n1"], organizer("ノードは1件です。まず状況を確認する案があります。"), 0),
    "O3": (["n1", "n2", "n3"], organizer(grouping_proposals=[grouping(["n1", "n2"])]), 0),
    "O4": (["n1"], organizer(decomposition_proposals=[decomposition()]), 0),
    "O5": (["n1", "n2"], organizer(relation_proposals=[relation()]), 0),
}

ADVISOR_SAMPLES: dict[str, tuple[list[str], Report, int]] = {
    "A1": (["n1"], advisor(), 0),
    "A2": (
        ["n1"],
        advisor([option("A案", suggested_status="IN_PROGRESS"), option("B案", suggested_status="WAITING_EXTERNAL")]),
        0,
    ),
    "A3": (["n1"], advisor([option("パターン1", description="早い"), option("パターン2", description="安い")]), 0),
    "A4": ([], advisor_without_node(), 1),
    "A5": (["n1", "n2", "n3"], advisor(), 0),
}

WORDS = ("見積", "設計", "企画", "調査", "連絡", "契約", "試作", "評価", "移行", "点検")


def some_text(rng: random.Random) -> str:
    return "".join(rng.choice(WORDS) for _ in range(rng.randint(1, 8)))


def some_organizer(rng: random.Random, ids: list[str]) -> Report:
    """Return a valid Organizer report over `ids` (at least one)."""
    return organizer(
        "まず" + some_text(rng),
        decomposition_proposals=[
            decomposition(
                rng.choice(ids),
                some_text(rng),
                suggested_children=[kid(some_text(rng), some_text(rng)) for _ in range(rng.randint(2, 4))],
            )
            for _ in range(rng.randint(0, 5))
        ],
        grouping_proposals=[
            grouping(rng.sample(ids, rng.randint(0, len(ids))), some_text(rng)) for _ in range(rng.randint(0, 5))
        ],
        relation_proposals=[
            relation(rng.choice(ids), rng.choice(ids), some_text(rng)) for _ in range(rng.randint(0, 5))
        ],
    )


def some_advisor(rng: random.Random, ids: list[str]) -> Report:
    """Return a valid Advisor report over `ids` (at least one)."""
    options = [
        option(
            f"{index}案",
            next_action=some_text(rng),
            necessary_info=some_text(rng),
            criteria_note=some_text(rng),
            risks=[some_text(rng) for _ in range(rng.randint(1, 3))],
        )
        for index in range(rng.randint(2, 6))
    ]
    return advisor(
        options,
        target_node_id=rng.choice(ids),
        target_title=some_text(rng) + rng.choice(["", "推奨", "ベスト"]),
        current_status="決定すべき" if rng.random() < 0.2 else "IN_PROGRESS",
        summary=some_text(rng),
    )


def some_ids(rng: random.Random) -> list[str]:
    return [f"n{index}" for index in range(rng.randint(1, 12))]
