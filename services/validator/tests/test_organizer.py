"""Organizer reports: the specification's samples, its table of broken input, and each rule alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from services.validator.domain.organizer import validate_organizer_report
from services.validator.tests.samples import (
    ORGANIZER_SAMPLES,
    Report,
    decomposition,
    grouping,
    kid,
    organizer,
    relation,
)

PHRASE = "contains forbidden phrase (e.g. べき, してください)"
ONLY_REQUIRED = [
    "decomposition_proposals is required (array)",
    "grouping_proposals is required (array)",
    "relation_proposals is required (array)",
    "summary is required",
]


def errors(report: object, ids: list[Any] | None = None) -> list[str]:
    return validate_organizer_report(report, ["n1"] if ids is None else ids).errors


@pytest.mark.parametrize("name", ORGANIZER_SAMPLES)
def test_samples_are_valid(name: str) -> None:  # V-01, V-02, V-04, V-13 to V-18, section 4
    ids, report, warnings = ORGANIZER_SAMPLES[name]
    before = copy.deepcopy(report)
    result = validate_organizer_report(report, ids)
    assert (result.ok, result.errors, len(result.warnings)) == (True, [], warnings)
    assert report == before  # V-05


BROKEN: list[tuple[object, list[str]]] = [
    ({}, ONLY_REQUIRED),  # V-09, V-10
    (organizer(""), ["summary must be non-empty"]),
    (organizer("  "), ["summary must be non-empty"]),
    (organizer("\u3000"), ["summary must be non-empty"]),  # V-06
    (organizer(5), ["summary must be non-empty"]),  # type: ignore[arg-type]
    (
        organizer(grouping_proposals=[grouping(["n1", "zz"])]),
        ["grouping_proposals[0].node_ids contains invalid id 'zz': node_ids 'zz' is not in valid node list"],
    ),
    (
        organizer(relation_proposals=[relation(5, "xyz", "確認してください")]),
        [
            "relation_proposals[0].from_node_id '5' is not in valid node list",
            "relation_proposals[0].to_node_id 'xyz' is not in valid node list",
            f"relation_proposals[0].reason {PHRASE}",
        ],
    ),
    (organizer(decomposition_proposals=[None]), ["decomposition_proposals[0] must be an object"]),  # V-08
    (organizer("まず進めるべきです"), [f"summary or reason {PHRASE}"]),  # V-17
    ([], ["report must be an object"]),  # V-07
    (None, ["report must be an object"]),
]


@pytest.mark.parametrize(("report", "expected"), BROKEN)
def test_broken_reports_give_exactly_these_errors(report: object, expected: list[str]) -> None:
    assert errors(report) == expected


def test_forbidden_summary_without_next_step_is_an_error_and_a_warning() -> None:  # V-17, V-18
    result = validate_organizer_report(organizer("進めるべきです"), ["n1"])
    assert result.errors == [f"summary or reason {PHRASE}"]
    assert result.warnings == ["summary could suggest next step (e.g. まず◯◯)"]
    assert not result.ok


def test_a_blank_summary_has_no_warning() -> None:  # V-18
    assert validate_organizer_report(organizer("  "), []).warnings == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("zz", "zz"),
        ("", ""),
        (None, ""),
        (True, "true"),
        (1.5, "1.5"),
        (["n1"], '["n1"]'),
        ({"a": "あ"}, '{"a": "あ"}'),
    ],
)
def test_bad_ids_are_quoted_by_their_json_text(value: object, text: str) -> None:  # V-11, V-76
    report = organizer(decomposition_proposals=[decomposition(target_node_id=value)])
    assert errors(report) == [f"decomposition_proposals[0].target_node_id '{text}' is not in valid node list"]


def test_a_missing_id_is_an_error() -> None:  # V-11
    proposal = decomposition()
    del proposal["target_node_id"]
    report = organizer(decomposition_proposals=[proposal])
    assert errors(report) == ["decomposition_proposals[0].target_node_id '' is not in valid node list"]


def test_with_an_empty_list_every_id_is_an_error() -> None:  # V-11
    assert errors(organizer(decomposition_proposals=[decomposition()]), []) == [
        "decomposition_proposals[0].target_node_id 'n1' is not in valid node list"
    ]


def test_a_blank_id_is_wrong_even_when_the_list_has_it() -> None:  # V-76
    report = organizer(grouping_proposals=[grouping([" "])], relation_proposals=[relation(" ", "n1")])
    assert len(errors(report, [" ", "n1"])) == 2


def test_ids_compare_exactly() -> None:  # V-06
    assert len(errors(organizer(grouping_proposals=[grouping(["N1", "n1 ", "ｎ1"])]))) == 3


@pytest.mark.parametrize("children", [None, [], [kid()], "ab", {"0": kid(), "1": kid()}])
def test_fewer_than_two_children_are_an_error(children: object) -> None:  # V-13, V-77
    report = organizer(decomposition_proposals=[decomposition(suggested_children=children)])
    assert errors(report) == ["decomposition_proposals[0].suggested_children must have at least 2 items"]


def test_children_are_checked_also_when_they_are_too_few() -> None:  # V-13, V-14
    report = organizer(decomposition_proposals=[decomposition(suggested_children=[{"title": " "}])])
    assert errors(report) == [
        "decomposition_proposals[0].suggested_children must have at least 2 items",
        "decomposition_proposals[0].suggested_children[0].title is required",
        "decomposition_proposals[0].suggested_children[0].context is required",
    ]


def test_a_child_that_is_no_object_is_named() -> None:  # V-08
    report = organizer(decomposition_proposals=[decomposition(suggested_children=[kid(), 7])])
    assert errors(report) == ["decomposition_proposals[0].suggested_children[1] must be an object"]


def test_missing_node_ids_are_an_error_and_an_empty_array_is_not() -> None:  # V-15, V-76
    missing: Report = {"group_label": "x", "reason": "理由"}
    assert errors(organizer(grouping_proposals=[missing])) == ["grouping_proposals[0].node_ids is required (array)"]
    assert errors(organizer(grouping_proposals=[grouping([])])) == []


def test_errors_follow_the_order_of_the_rules() -> None:  # V-09 to V-17
    report = {
        "relation_proposals": [relation("n1", "zz", "")],
        "grouping_proposals": [grouping(["zz"], "やるべき")],
        "decomposition_proposals": [decomposition("zz", " ", suggested_children=[])],
    }
    assert errors(report) == [
        "summary is required",
        "decomposition_proposals[0].target_node_id 'zz' is not in valid node list",
        "decomposition_proposals[0].reason is required and non-empty",
        "decomposition_proposals[0].suggested_children must have at least 2 items",
        "grouping_proposals[0].node_ids contains invalid id 'zz': node_ids 'zz' is not in valid node list",
        "relation_proposals[0].to_node_id 'zz' is not in valid node list",
        "relation_proposals[0].reason is required and non-empty",
        f"grouping_proposals[0].reason {PHRASE}",
    ]


def test_only_summary_and_reasons_are_searched_for_phrases() -> None:  # V-17, V-29
    report = organizer(
        decomposition_proposals=[
            decomposition(
                target_title="すべき", suggested_children=[kid("やるべき", "してください"), kid("が必要です")]
            )
        ]
    )
    assert errors(report) == []


def test_findings_carry_code_pointer_and_allowed_values() -> None:
    ids = [f"n{index}" for index in range(1, 31)]
    report = organizer(grouping_proposals=[grouping(["n1", "zz"])])
    (finding,) = validate_organizer_report(report, ids).findings
    assert finding.code == "ORGANIZER_ID_UNKNOWN"
    assert finding.pointer == "/grouping_proposals/0/node_ids/1"
    assert finding.allowed_values == tuple(ids[:20])
    assert finding.allowed_values_total == 30
