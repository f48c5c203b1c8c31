"""Precision and recall of validation: no fault is missed or invented, over thousands of generated reports."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.validator.domain.advisor import validate_advisor_report
from services.validator.domain.findings import ValidationResult
from services.validator.domain.organizer import validate_organizer_report
from services.validator.domain.pointers import MISSING, find_value
from services.validator.tests.mutants import (
    ADVISOR_FAULTS,
    IDS,
    ORGANIZER_FAULTS,
    SLOTS,
    Fault,
    full_advisor,
    full_organizer,
)
from services.validator.tests.samples import Report, some_advisor, some_ids, some_organizer

Validate = Callable[[object, list[str]], ValidationResult]
Faults = dict[str, Callable[[int], Fault]]

KINDS: list[tuple[Validate, Callable[[], Report], Faults]] = [
    (validate_organizer_report, full_organizer, ORGANIZER_FAULTS),
    (validate_advisor_report, full_advisor, ADVISOR_FAULTS),
]


@pytest.mark.parametrize(("validate", "fresh", "faults"), KINDS, ids=["organizer", "advisor"])
def test_every_mutant_is_caught_with_exactly_its_error(
    validate: Validate, fresh: Callable[[], Report], faults: Faults
) -> None:  # V-76, V-77, V-83
    rng = random.Random(7)
    assert validate(fresh(), IDS).errors == []
    for round_number in range(1200):
        name = sorted(faults)[round_number % len(faults)]
        report = fresh()
        expected = faults[name](rng.randrange(SLOTS))(report, rng)
        assert validate(report, IDS).errors == [expected], name


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize(("validate", "fresh", "faults"), KINDS, ids=["organizer", "advisor"])
def test_all_planted_faults_are_found_in_one_pass(
    validate: Validate, fresh: Callable[[], Report], faults: Faults, count: int
) -> None:
    rng = random.Random(count)
    for _ in range(50):
        report = fresh()
        names = rng.sample(sorted(faults), count)
        slots = rng.sample(range(SLOTS), count)
        expected = {faults[name](slot)(report, rng) for name, slot in zip(names, slots, strict=True)}
        assert len(expected) == count
        assert set(validate(report, IDS).errors) == expected


@pytest.mark.parametrize("make", [some_organizer, some_advisor])
def test_generated_valid_reports_pass(make: Callable[[random.Random, list[str]], Report]) -> None:  # V-78
    rng = random.Random(11)
    validate: Validate = validate_organizer_report if make is some_organizer else validate_advisor_report
    for _ in range(1000):
        ids = some_ids(rng)
        report = make(rng, ids)
        assert validate(report, ids).errors == []


def json_values() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    names = st.sampled_from(sorted({*full_organizer(), *full_advisor(), "reason", "node_ids", "risks", "label"}))
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | st.text(max_size=4), inner, max_size=8),
        max_leaves=30,
    )


@settings(max_examples=400, deadline=None)
@given(report=json_values(), ids=st.lists(st.text(max_size=4) | st.integers(), max_size=5))
def test_arbitrary_json_never_raises_and_is_never_changed(report: Any, ids: list[Any]) -> None:  # V-05, V-77
    before = copy.deepcopy(report)
    for validate in (validate_organizer_report, validate_advisor_report):
        result = validate(report, ids)
        assert result.ok is (result.errors == [])
        assert len(result.findings) == len(result.errors) + len(result.warnings)
    assert repr(report) == repr(before)  # repr: NaN is not equal to itself


ODDITIES: list[Any] = [
    None,
    True,
    0,
    1.5,
    "",
    " ",
    "推奨べき",
    [],
    {},
    [None],
    [[]],
    [{}],
    {"reason": []},
    [1, "n1"],
    "n1",
]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_value_replaced_by_another_type_never_raises(data: st.DataObject) -> None:  # V-77
    report = data.draw(st.sampled_from([full_organizer(), full_advisor()]))
    paths = _list_paths(report)
    for _ in range(data.draw(st.integers(1, 5))):
        steps = data.draw(st.sampled_from(paths))
        # A copy: a list inside itself would be an endless report, which JSON cannot express.
        _replace(report, steps, copy.deepcopy(data.draw(st.sampled_from(ODDITIES))))
    for validate in (validate_organizer_report, validate_advisor_report):
        for finding in validate(report, IDS).findings:
            for pointer in finding.pointers:
                parent = pointer.rpartition("/")[0]
                assert find_value(report, parent) is not MISSING, finding


def _list_paths(value: Any, steps: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, child in children for path in [(*steps, key), *_list_paths(child, (*steps, key))]]


def _replace(report: Any, steps: tuple[Any, ...], value: Any) -> None:
    for step in steps[:-1]:
        try:
            report = report[step]
        except (KeyError, IndexError, TypeError):
            return
    index = steps[-1]
    if isinstance(report, dict) or (isinstance(report, list) and isinstance(index, int) and index < len(report)):
        report[index] = value


def test_nesting_deeper_than_the_stack_does_not_raise() -> None:  # V-77
    deep: Any = "推奨"
    for _ in range(100_000):
        deep = [deep]
    result = validate_advisor_report(full_advisor() | {"criteria": deep}, IDS)
    assert result.errors == ["output contains forbidden word (e.g. ベスト, 推奨)"]
    report = full_organizer()
    report["relation_proposals"][0]["from_node_id"] = deep
    assert len(validate_organizer_report(report, IDS).errors) == 1
