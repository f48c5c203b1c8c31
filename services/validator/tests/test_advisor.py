"""Advisor reports: the specification's samples, its table of broken input, and each rule alone."""

from __future__ import annotations

import copy

import pytest

from services.validator.domain.advisor import validate_advisor_report
from services.validator.tests.samples import ADVISOR_SAMPLES, Report, advisor, advisor_without_node, option

WORD = "output contains forbidden word (e.g. ベスト, 推奨)"


def errors(report: object, ids: list[str] | None = None) -> list[str]:
    return validate_advisor_report(report, ["n1"] if ids is None else ids).errors


def drop_fields(report: Report, *names: str) -> Report:
    return {name: value for name, value in report.items() if name not in names}


@pytest.mark.parametrize("name", ADVISOR_SAMPLES)
def test_samples_are_valid(name: str) -> None:  # V-03, V-04, V-19 to V-28, section 4
    ids, report, warnings = ADVISOR_SAMPLES[name]
    before = copy.deepcopy(report)
    result = validate_advisor_report(report, ids)
    assert (result.ok, result.errors, len(result.warnings)) == (True, [], warnings)
    assert report == before  # V-05


BROKEN: list[tuple[object, list[str] | None, list[str]]] = [
    (advisor([option("A案")]), None, ["options must have at least 2 items"]),  # V-23
    (
        advisor([option("A案"), option("B案", risks=[])]),
        None,
        ["options[1].risks is required and must have at least 1 item"],
    ),
    (
        advisor([option("A案"), option("B案", risks=[""])]),  # V-83
        None,
        ["options[1].risks is required and must have at least 1 item"],
    ),
    (advisor_without_node() | {"next_decision": " "}, [], ["next_decision must be non-empty"]),  # V-24
    (advisor([]), [], ["options must have at least 2 items"]),
    (advisor(target_node_id="zz"), None, ["target_node_id is not in valid node list"]),  # V-22
    (advisor(target_title="推奨環境の確認"), None, []),  # V-78
    (advisor(summary="決めるべきこと"), None, []),  # V-27
    (advisor(summary="A案を推奨します"), None, [WORD]),
    (advisor(summary="決定すべきこと"), None, [WORD]),
    (
        {},
        None,
        [
            "target_node_id is required",
            "target_title is required",
            "current_status is required",
            "options is required (array)",
            "next_decision is required",
            "summary is required",
        ],
    ),
    ("A1", None, ["report must be an object"]),  # V-07
]


@pytest.mark.parametrize(("report", "ids", "expected"), BROKEN)
def test_broken_reports_give_exactly_these_errors(report: object, ids: list[str] | None, expected: list[str]) -> None:
    assert errors(report, ids) == expected


@pytest.mark.parametrize("value", [None, 5, ["n1"], {}, True])
def test_echoed_fields_must_be_strings(value: object) -> None:  # V-19, V-76
    for name in ("target_node_id", "target_title", "current_status"):
        assert errors(advisor() | {name: value}) == [f"{name} is required"]


def test_blank_title_and_status_are_allowed() -> None:  # V-19
    assert errors(advisor(target_title="", current_status=" ")) == []


def test_a_blank_target_is_not_in_a_list() -> None:  # V-22
    assert errors(advisor(target_node_id="")) == ["target_node_id is not in valid node list"]
    assert errors(advisor(target_node_id=" "), [" "]) == ["target_node_id is not in valid node list"]


def test_with_an_empty_list_the_target_is_not_checked() -> None:  # V-22
    assert errors(advisor(target_node_id="anything"), []) == []


def test_without_a_node_only_the_number_of_options_is_waived() -> None:  # V-24
    report = advisor_without_node() | {"options": [option("A案", next_action=" ")]}
    assert errors(report, []) == ["options[0].next_action is required"]
    assert errors(drop_fields(advisor_without_node(), "options"), []) == ["options is required (array)"]


@pytest.mark.parametrize("name", ["next_action", "necessary_info", "criteria_note"])
def test_option_texts_are_required(name: str) -> None:  # V-25
    assert errors(advisor([option("A案"), option("B案", **{name: 5})])) == [f"options[1].{name} is required"]


def test_an_option_that_is_no_object_is_named() -> None:  # V-08
    assert errors(advisor([option("A案"), None, option("B案")])) == ["options[1] must be an object"]


def test_a_forbidden_word_anywhere_is_one_error_with_all_its_places() -> None:  # V-27
    report = advisor([option("A案", risks=["ベスト"]), option("B案", extra={"deep": [{"x/y": "正解"}]})])
    result = validate_advisor_report(report, ["n1"])
    assert result.errors == [WORD]
    assert result.findings[0].pointers == ("/options/0/risks/0", "/options/1/extra/deep/0/x~1y")


def test_words_of_nested_fields_named_like_the_echoed_ones_are_searched() -> None:  # V-27
    assert errors(advisor([option("A案", target_title="推奨"), option("B案")])) == [WORD]


def test_keys_are_not_searched() -> None:  # V-27
    assert errors(advisor(ベスト="x")) == []


def test_warnings_in_order() -> None:  # V-28
    report = drop_fields(advisor([option("一つ目"), option("候補"), option(5)]), "criteria")  # type: ignore[arg-type]
    result = validate_advisor_report(report, ["n1"])
    assert result.ok
    assert result.warnings == [
        "criteria should have at least 2 items",
        "options[0].label should contain 案/パターン/候補",
        "options[2].label should contain 案/パターン/候補",
    ]


@pytest.mark.parametrize("criteria", [None, "ab", [], [{"name": "費用"}]])
def test_few_criteria_are_a_warning(criteria: object) -> None:  # V-28
    assert validate_advisor_report(advisor(criteria=criteria), ["n1"]).warnings == [
        "criteria should have at least 2 items"
    ]
