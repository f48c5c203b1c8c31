"""Faults planted into valid reports, each with the error that must be found."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from services.validator.tests.samples import Report, advisor, decomposition, grouping, option, organizer, relation

Fault = Callable[[Report, random.Random], str]
"""Plants one fault in place and returns the message of its error."""

NOT_STRINGS: tuple[Any, ...] = (None, 5, 1.5, True, [], {}, ["n1"])
BLANKS: tuple[Any, ...] = ("", " ", "\u3000\n", *NOT_STRINGS)
NOT_ARRAYS: tuple[Any, ...] = (None, 5, "ab", {}, True)
NOT_OBJECTS: tuple[Any, ...] = (None, 5, "ab", [], True)

IDS = [f"n{index}" for index in range(8)]
SLOTS = 9


def full_organizer() -> Report:
    """A valid report with `SLOTS` proposals of each sort, so that every fault below has a place of its own."""
    return organizer(
        decomposition_proposals=[decomposition(IDS[index % 8]) for index in range(SLOTS)],
        grouping_proposals=[grouping(IDS[:4]) for _ in range(SLOTS)],
        relation_proposals=[relation("n1", "n2") for _ in range(SLOTS)],
    )


def full_advisor() -> Report:
    return advisor([option(f"{index}案") for index in range(SLOTS)])


def _blank(array: str, name: str, text: str) -> Callable[[int], Fault]:
    def plant_in(slot: int) -> Fault:
        def plant(report: Report, rng: random.Random) -> str:
            report[array][slot][name] = rng.choice(BLANKS)
            return f"{array}[{slot}].{name} {text}"

        return plant

    return plant_in


def _unknown(array: str, name: str) -> Callable[[int], Fault]:
    def plant_in(slot: int) -> Fault:
        def plant(report: Report, rng: random.Random) -> str:
            node_id = report[array][slot][name] = rng.choice(["zz", "N1", "n1 ", "", " "])
            return f"{array}[{slot}].{name} '{node_id}' is not in valid node list"

        return plant

    return plant_in


def _not_object(array: str) -> Callable[[int], Fault]:
    def plant_in(slot: int) -> Fault:
        def plant(report: Report, rng: random.Random) -> str:
            report[array][slot] = rng.choice(NOT_OBJECTS)
            return f"{array}[{slot}] must be an object"

        return plant

    return plant_in


def _phrase(array: str) -> Callable[[int], Fault]:
    def plant_in(slot: int) -> Fault:
        def plant(report: Report, rng: random.Random) -> str:
            report[array][slot]["reason"] += rng.choice(["べき", "してください", "が必要です"])
            return f"{array}[{slot}].reason contains forbidden phrase (e.g. べき, してください)"

        return plant

    return plant_in


def _few_children(slot: int) -> Fault:
    def plant(report: Report, rng: random.Random) -> str:
        proposal = report["decomposition_proposals"][slot]
        proposal["suggested_children"] = rng.choice([[], proposal["suggested_children"][:1], *NOT_ARRAYS])
        return f"decomposition_proposals[{slot}].suggested_children must have at least 2 items"

    return plant


def _bad_child(slot: int) -> Fault:
    def plant(report: Report, rng: random.Random) -> str:
        name = rng.choice(["title", "context"])
        report["decomposition_proposals"][slot]["suggested_children"][1][name] = rng.choice(BLANKS)
        return f"decomposition_proposals[{slot}].suggested_children[1].{name} is required"

    return plant


def _bad_member(slot: int) -> Fault:
    def plant(report: Report, rng: random.Random) -> str:
        node_id = rng.choice(["zz", "", "N1"])
        report["grouping_proposals"][slot]["node_ids"].append(node_id)
        return (
            f"grouping_proposals[{slot}].node_ids contains invalid id '{node_id}': "
            f"node_ids '{node_id}' is not in valid node list"
        )

    return plant


def _no_members(slot: int) -> Fault:
    def plant(report: Report, rng: random.Random) -> str:
        report["grouping_proposals"][slot]["node_ids"] = rng.choice(NOT_ARRAYS)
        return f"grouping_proposals[{slot}].node_ids is required (array)"

    return plant


def _risks(slot: int) -> Fault:
    def plant(report: Report, rng: random.Random) -> str:
        report["options"][slot]["risks"] = rng.choice([[], [""], [" ", None], [5], *NOT_ARRAYS])
        return f"options[{slot}].risks is required and must have at least 1 item"

    return plant


def _summary_blank(_: int) -> Fault:
    def plant(report: Report, rng: random.Random) -> str:
        report["summary"] = rng.choice(["", " ", 5, [], {}])
        return "summary must be non-empty"

    return plant


def _field_required(name: str) -> Callable[[int], Fault]:
    def plant_in(_: int) -> Fault:
        def plant(report: Report, rng: random.Random) -> str:
            report[name] = rng.choice(NOT_STRINGS)
            return f"{name} is required"

        return plant

    return plant_in


def _advisor_word(slot: int) -> Fault:
    def plant(report: Report, rng: random.Random) -> str:
        report["options"][slot]["description"] = rng.choice(["ベスト", "推奨", "正解", "すべき"]) + "です"
        return "output contains forbidden word (e.g. ベスト, 推奨)"

    return plant


ORGANIZER_FAULTS: dict[str, Callable[[int], Fault]] = {
    "decomposition reason": _blank("decomposition_proposals", "reason", "is required and non-empty"),
    "grouping reason": _blank("grouping_proposals", "reason", "is required and non-empty"),
    "relation reason": _blank("relation_proposals", "reason", "is required and non-empty"),
    "decomposition id": _unknown("decomposition_proposals", "target_node_id"),
    "relation from": _unknown("relation_proposals", "from_node_id"),
    "relation to": _unknown("relation_proposals", "to_node_id"),
    "decomposition object": _not_object("decomposition_proposals"),
    "grouping object": _not_object("grouping_proposals"),
    "relation object": _not_object("relation_proposals"),
    "decomposition phrase": _phrase("decomposition_proposals"),
    "grouping phrase": _phrase("grouping_proposals"),
    "relation phrase": _phrase("relation_proposals"),
    "few children": _few_children,
    "bad child": _bad_child,
    "bad member": _bad_member,
    "no members": _no_members,
    "summary": _summary_blank,
}

ADVISOR_FAULTS: dict[str, Callable[[int], Fault]] = {
    "next action": _blank("options", "next_action", "is required"),
    "necessary info": _blank("options", "necessary_info", "is required"),
    "criteria note": _blank("options", "criteria_note", "is required"),
    "option object": _not_object("options"),
    "risks": _risks,
    "word": _advisor_word,
    "title": _field_required("target_title"),
    "status": _field_required("current_status"),
    "target": _field_required("target_node_id"),
    "summary": _summary_blank,
}
