"""Test the measure of foresight and its random baseline."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allinone import commands
from hansei.client.cli.avoidance import (
    COMMONEST_ERRORS,
    JOINED_ERRORS,
    PLAYBOOK,
    WORKING_CALLS,
    Avoidance,
    PassedShare,
    tells_how,
)
from hansei.client.cli.failed_tool_call import FailedToolCall
from hansei.client.cli.foresight import (
    QUERY_CHARS,
    TOP_K,
    ForesightCounts,
    ForesightHits,
    build_query_before,
    compute_chance,
    count_duplicates,
    join_argument_names,
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


def failed_call(operation: str = "book_seat", kind: str = "Error: seat <id> is taken") -> FailedToolCall:
    return FailedToolCall("", operation, '{"seat": "12A"}', kind)


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
    assert warns_of(Bullet(content=content), failed_call()) is warns


def test_nothing_warns_of_a_call_that_worked() -> None:
    worked = FailedToolCall("", "book_seat", "", "")
    assert not warns_of(Bullet(content="book_seat"), worked)


def test_a_memory_tells_how_to_avoid_an_error_by_a_value_or_call_that_worked() -> None:
    call = FailedToolCall("", "pay", "{}", "E41", remedies=("4500", "open_till"))
    assert tells_how(["`pay`: `amount` worked as 4500"], call)
    assert tells_how(["pay: call open_till first"], call)
    assert not tells_how(["`pay` fails with E41", "refund: 4500", "pay 45001"], call)
    assert not tells_how(["pay 7"], FailedToolCall("", "pay", "{}", "E41", remedies=("7",)))


def test_simple_memories_hold_only_earlier_trajectories() -> None:
    avoidance = Avoidance()
    call = FailedToolCall("", "pay", "{}", "E41", remedies=("4500",))
    avoidance.count(call, [], is_new_task=True)
    avoidance.learn([call], [("pay", '{"amount": "4500"}')])
    avoidance.count(call, ["pay 4500"], is_new_task=False)
    shares = {name: passed.share for name, passed in avoidance.shares().items()}
    assert shares == {PLAYBOOK: 0.5, JOINED_ERRORS: 0.0, COMMONEST_ERRORS: 0.0, WORKING_CALLS: 0.5}
    assert str(avoidance.shares()[PLAYBOOK]) == "0.500 (0.013 to 0.987)"
    assert {passed.share for passed in avoidance.shares_of_new_tasks().values()} == {
        0.0
    }  # the values of a task are no foresight in its repeat
    assert (avoidance.repaired, avoidance.repaired_in_new_tasks) == (2, 1)
    assert Avoidance().shares()[PLAYBOOK] == PassedShare(0.0, 0.0, 1.0)


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
    (call,) = commands.find_failed_calls(trajectory)
    query = build_query_before(FailedToolCall(**call))
    assert "book_seat" in query.query_text
    assert "seat" in query.query_text
    assert "12A" not in query.query_text
    assert "a window seat, please" in query.query_text
    assert "taken" not in query.query_text
    assert "aisle" not in query.query_text
    assert query.top_k == TOP_K


def test_a_long_call_is_cut_in_the_query() -> None:
    long = FailedToolCall("", "run", "x" * 10_000, "e")
    assert len(build_query_before(long).query_text) <= 2 * QUERY_CHARS + 1


@given(st.lists(st.booleans(), max_size=9))
def test_the_chance_is_the_share_of_all_choices_of_five_that_warn(warning: list[bool]) -> None:
    choices = list(combinations(warning, min(TOP_K, len(warning))))
    assert compute_chance(warning) == pytest.approx(sum(any(choice) for choice in choices) / len(choices))


def test_shares_are_of_the_errors_and_of_those_seen_and_0_without_any() -> None:
    hits = ForesightHits().plus(1, is_seen=True).plus(1, is_seen=False).plus(0, is_seen=True)
    assert ForesightCounts(errors=4, seen=2).shares(hits) == {"foreseen_of_all": 0.5, "foreseen_of_seen": 0.5}
    assert ForesightCounts().shares(ForesightHits()) == {"foreseen_of_all": 0.0, "foreseen_of_seen": 0.0}


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
    assert join_argument_names(arguments) == names


def test_duplicates_repeat_words_or_warnings() -> None:
    warning = 'Before `book_seat`: look, or it fails with "Error: seat <id> is taken".'
    repaired = Bullet(content=f"{warning} Repair: correct `seat`.")
    assert count_duplicates([Bullet(content=warning), Bullet(content="Be brief.")], [failed_call()]) == 0
    assert count_duplicates([Bullet(content=warning), repaired], [failed_call()]) == 1
    assert count_duplicates([Bullet(content="Be brief."), Bullet(content="be  brief.")], [failed_call()]) == 1
