"""What counts as foreseen, and what five bullets taken at random would foresee."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allinone import commands
from hansei.client.cli.foresight import (
    QUERY_CHARS,
    TOP_K,
    Foresight,
    Hits,
    ToolCall,
    argument_names,
    chance,
    duplicates,
    query_before,
    warns_of,
)
from hansei.playbook.v1.playbook_pb2 import Bullet
from hansei.reflector.v1.trajectory_pb2 import (
    STEP_ROLE_ASSISTANT,
    STEP_ROLE_TOOL,
    STEP_ROLE_USER,
    TRAJECTORY_STATUS_FAILURE,
    Step,
    Trajectory,
)
from hansei.reflector.v1.trajectory_pb2 import ToolCall as RecordedCall


def failed(operation: str = "book_seat", kind: str = "Error: seat <id> is taken") -> ToolCall:
    return ToolCall("", operation, '{"seat": "12A"}', kind)


@pytest.mark.parametrize(
    ("content", "warns"),
    [
        ('Before `book_seat`: look, or it fails with "Error: seat <id> is taken".', True),
        ('Before `Book_Seat`: look, or it fails with "error: seat <id> is TAKEN".', True),
        ('Before `book_meal`: look, or it fails with "Error: seat <id> is taken".', False),
        ("Before `book_seat`: look first.", False),
        ("", False),
    ],
)
def test_a_bullet_warns_when_it_names_operation_and_error(content: str, warns: bool) -> None:
    assert warns_of(Bullet(content=content), failed()) is warns


def test_nothing_warns_of_a_call_that_worked() -> None:
    worked = ToolCall("", "book_seat", "", "")
    assert not warns_of(Bullet(content="book_seat"), worked)


def test_the_query_holds_only_what_happened_before_the_error() -> None:
    recorded = RecordedCall(id="1", name="book_seat", arguments='{"seat": "12A"}')
    trajectory = Trajectory(
        id="t",
        dataset="d",
        query="q",
        status=TRAJECTORY_STATUS_FAILURE,
        steps=[
            Step(role=STEP_ROLE_USER, content="a window seat, please"),
            Step(role=STEP_ROLE_ASSISTANT, tool_calls=[recorded]),
            Step(role=STEP_ROLE_TOOL, name="book_seat", tool_call_id="1", content="Error: seat 12A is taken"),
            Step(role=STEP_ROLE_USER, content="then an aisle seat"),
        ],
    )
    (call,) = commands.failed_calls(trajectory)
    asked = query_before(ToolCall(**call))
    assert "book_seat" in asked.query_text
    assert "seat" in asked.query_text
    assert "12A" not in asked.query_text
    assert "a window seat, please" in asked.query_text
    assert "taken" not in asked.query_text
    assert "aisle" not in asked.query_text
    assert asked.top_k == TOP_K


def test_a_long_call_is_cut_in_the_query() -> None:
    long = ToolCall("", "run", "x" * 10_000, "e")
    assert len(query_before(long).query_text) <= 2 * QUERY_CHARS + 1


@given(st.lists(st.booleans(), max_size=9))
def test_the_chance_is_the_share_of_all_choices_of_five_that_warn(warning: list[bool]) -> None:
    choices = list(combinations(warning, min(TOP_K, len(warning))))
    assert chance(warning) == pytest.approx(sum(any(choice) for choice in choices) / len(choices))


def test_shares_are_of_the_errors_and_of_those_seen_and_0_without_any() -> None:
    hits = Hits().plus(1, seen=True).plus(1, seen=False).plus(0, seen=True)
    assert Foresight(errors=4, seen=2).shares(hits) == {"foreseen_of_all": 0.5, "foreseen_of_seen": 0.5}
    assert Foresight().shares(Hits()) == {"foreseen_of_all": 0.0, "foreseen_of_seen": 0.0}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ('{"seat": "12A", "meal": {"kind": "x"}}', "seat meal"),
        ("ls -l", "ls -l"),
        ("[1]", "[1]"),
        ("[" * 9_999, "[" * 9_999),
    ],
)
def test_arguments_in_json_are_asked_for_by_name(arguments: str, names: str) -> None:
    assert argument_names(arguments) == names


def test_duplicates_repeat_words_or_warnings() -> None:
    warning = 'Before `book_seat`: look, or it fails with "Error: seat <id> is taken".'
    repaired = Bullet(content=f"{warning} Repair: correct `seat`.")
    assert duplicates([Bullet(content=warning), Bullet(content="Be brief.")], [failed()]) == 0
    assert duplicates([Bullet(content=warning), repaired], [failed()]) == 1
    assert duplicates([Bullet(content="Be brief."), Bullet(content="be  brief.")], [failed()]) == 1
