from __future__ import annotations

from collections.abc import Iterable

import pytest

from libs.trajectories.actions import extract_actions
from services.reflector.domain.action_rules import find_repeated_calls, find_tool_errors
from services.reflector.domain.answer_rules import find_answer_errors
from services.reflector.domain.contrast import find_contrast
from services.reflector.domain.findings import TrajectoryFinding, select_steps
from services.reflector.domain.outcome import Outcome
from services.reflector.domain.trajectory import Trajectory
from services.reflector.tests.trajectories import (
    FAILED,
    SUCCEEDED,
    MakeStep,
    asks,
    build_trajectory,
    calls,
    returns,
    says,
    steps,
)

BY_TRUTH = Outcome(is_success=False, signal="ground_truth")


def ending(trajectory: Trajectory, outcome: Outcome = FAILED) -> list[TrajectoryFinding]:
    return list(find_answer_errors(trajectory, extract_actions(trajectory.transcript), outcome))


def kinds(findings: Iterable[TrajectoryFinding]) -> list[str]:
    return [finding.kind for finding in findings]


def test_errors_of_one_kind_are_one_finding_described_by_the_repaired_one() -> None:
    log: list[MakeStep] = []
    for flight, result in (
        ("HAT1", "Error: no seats on HAT001"),
        ("HAT2", "Error: no seats on HAT002"),
        ("HAT3", "{}"),
    ):
        log += [calls("book", {"flight": flight, "class": "economy"}), returns(result)]
    (finding,) = find_tool_errors(extract_actions(steps(*log)), SUCCEEDED)
    assert (finding.facts["tool"], finding.facts["kind"]) == ("book", "Error: no seats on <id>")
    assert finding.steps == (1, 3, 4)
    assert finding.repair is not None
    assert finding.facts["count"] == "2"


def test_an_error_after_which_the_same_call_worked_is_a_fault_of_the_moment() -> None:
    log = [calls("book", {"a": 1}), returns("Error: upstream timed out"), calls("book", {"a": 1}), returns("{}")]
    assert list(find_tool_errors(extract_actions(steps(*log)), SUCCEEDED)) == []


def test_identical_failing_calls_are_a_loop() -> None:
    again = [calls("get", {"id": 1}), returns("Error: not found")]
    (finding,) = find_repeated_calls(extract_actions(steps(*again, *again)), FAILED)
    assert (finding.steps, finding.facts["count"]) == ((0, 2), "2")
    assert list(find_repeated_calls(extract_actions(steps(*again)), FAILED)) == []


def test_identical_calls_that_work_are_a_loop_at_the_third() -> None:
    again = [calls("get", {"id": 1}), returns("pending")]
    assert list(find_repeated_calls(extract_actions(steps(*again, *again)), FAILED)) == []
    assert kinds(find_repeated_calls(extract_actions(steps(*again, *again, *again)), FAILED)) == ["repeated_call"]


def test_a_call_repeated_after_something_was_changed_is_no_loop() -> None:
    again = [calls("get", {"id": 1}), returns("Error: not found")]
    change = [calls("create", {"id": 1}), returns("created")]
    assert list(find_repeated_calls(extract_actions(steps(*again, *change, *again)), FAILED)) == []


def test_a_success_has_no_findings_about_its_end() -> None:
    assert ending(build_trajectory(says("I cannot help with that.")), SUCCEEDED) == []


@pytest.mark.parametrize(
    "words",
    ["I'm unable to change that.", "I will transfer you to a human agent.", "申し訳ございませんが、対応できかねます。"],
)
def test_giving_up_is_a_finding(words: str) -> None:
    assert "refusal" in kinds(ending(build_trajectory(asks("change it"), says(words))))


def test_a_claimed_success_after_an_unrepaired_failure_is_a_finding() -> None:
    log = [calls("book", {"a": 1}), returns("Error: card declined"), says("Your flight has been booked.")]
    (finding,) = ending(build_trajectory(*log))
    assert (finding.kind, finding.steps) == ("contradicted_claim", (1, 2))
    repaired = [calls("book", {"a": 1}), returns("Error: card declined"), calls("book", {"a": 1}), returns("{}")]
    assert ending(build_trajectory(*repaired, says("Your flight has been booked."))) == []


def test_an_answer_from_memory_is_a_finding() -> None:
    (finding,) = ending(build_trajectory(says("I recall."), says("It is Lyon."), generated_answer="It is Lyon."))
    assert (finding.kind, finding.steps) == ("unverified_answer", (1,))


def test_a_number_that_no_result_contains_is_a_finding() -> None:
    log = [calls("sum", {"x": 1}), returns("1,250 EUR"), says("It is 1250 plus 300, 1550 in all.")]
    (finding,) = ending(build_trajectory(*log, generated_answer="1250 and 1550"))
    assert finding.facts["values"] == "1550"


def test_the_error_of_an_interruption_is_reported_once() -> None:
    assert kinds(ending(build_trajectory(says("x"), error_message="TimeoutError: 30 s"))) == ["trajectory_error"]
    log = [calls("get", {}), returns("Error: quota 7 exceeded")]
    assert ending(build_trajectory(*log, error_message="gave up: Error: quota 7 exceeded")) == []


def test_the_known_answer_of_a_task_is_no_lesson() -> None:
    wrong = build_trajectory(calls("look", {}), returns("London"), says("London"), generated_answer="London")
    assert ending(wrong, BY_TRUTH) == []


def test_the_contrast_is_the_first_call_that_only_the_success_made() -> None:
    shared = [calls("find", {"user": "mia"}), returns("u1")]
    after = [calls("note", {"text": "bad"}), returns("ok")], [calls("note", {"text": "good"}), returns("ok")]
    bad = extract_actions(steps(*shared, calls("book", {"seat": "1A"}), returns("ok"), *after[0]))
    good = extract_actions(steps(*shared, calls("book", {"seat": "2B"}), returns("ok"), *after[1]))
    finding = find_contrast("book a seat", bad, good, reflects_failed=True)
    assert finding is not None
    assert finding.facts["worked_arguments"] == '{"seat": "2B"}'
    assert finding.facts["changes"] == "`seat`"
    assert finding.steps == (2,)
    assert find_contrast("book a seat", good, good, reflects_failed=True) is None


def test_the_order_of_keys_is_no_difference() -> None:
    first = extract_actions(steps(calls("book", '{"a": 1, "b": 2}'), returns("ok")))
    second = extract_actions(steps(calls("book", '{"b":2,"a":1}'), returns("ok")))
    assert find_contrast("q", first, second, reflects_failed=True) is None


def test_a_call_of_only_the_failed_trajectory_is_reported() -> None:
    good = [calls("find", {"user": "mia"}), returns("u1")]
    bad = [*good, calls("cancel", {"user": "mia"}), returns("gone")]
    finding = find_contrast(
        "find mia", extract_actions(steps(*bad)), extract_actions(steps(*good)), reflects_failed=False
    )
    assert finding is not None
    assert (finding.facts["failed_tool"], finding.facts["worked_tool"]) == ("cancel", "")


def test_many_steps_are_named_by_the_first_ones_and_the_last() -> None:
    assert select_steps([3, 1, 3]) == (1, 3)
    assert select_steps(range(100)) == (0, 1, 2, 3, 4, 5, 6, 99)
