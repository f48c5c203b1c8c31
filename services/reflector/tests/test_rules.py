from __future__ import annotations

from collections.abc import Iterable

import pytest

from services.reflector.domain.action_rules import error_findings, repeat_findings
from services.reflector.domain.actions import actions_of
from services.reflector.domain.answer_rules import answer_findings
from services.reflector.domain.contrast import contrast
from services.reflector.domain.findings import Finding, named
from services.reflector.domain.outcome import Outcome
from services.reflector.domain.trajectory import Trajectory
from services.reflector.tests.runs import FAILED, SUCCEEDED, MakeStep, asks, calls, returns, run, says, steps

BY_TRUTH = Outcome(succeeded=False, signal="ground_truth")


def ending(trajectory: Trajectory, outcome: Outcome = FAILED, truth: str = "") -> list[Finding]:
    return list(answer_findings(trajectory, actions_of(trajectory.transcript), outcome, truth))


def kinds(findings: Iterable[Finding]) -> list[str]:
    return [finding.kind for finding in findings]


def test_errors_of_one_kind_are_one_finding_told_by_the_repaired_one() -> None:
    log: list[MakeStep] = []
    for flight, result in (
        ("HAT1", "Error: no seats on HAT001"),
        ("HAT2", "Error: no seats on HAT002"),
        ("HAT3", "{}"),
    ):
        log += [calls("book", {"flight": flight, "class": "economy"}), returns(result)]
    (finding,) = error_findings(actions_of(steps(*log)), SUCCEEDED)
    assert (finding.facts["tool"], finding.facts["kind"]) == ("book", "Error: no seats on <id>")
    assert finding.steps == (1, 3, 4)
    assert finding.repair is not None
    assert finding.facts["count"] == "2"


def test_identical_failing_calls_are_a_loop() -> None:
    again = [calls("get", {"id": 1}), returns("Error: not found")]
    (finding,) = repeat_findings(actions_of(steps(*again, *again)), FAILED)
    assert (finding.steps, finding.facts["count"]) == ((0, 2), "2")
    assert list(repeat_findings(actions_of(steps(*again)), FAILED)) == []


def test_identical_calls_that_work_are_a_loop_at_the_third() -> None:
    again = [calls("get", {"id": 1}), returns("pending")]
    assert list(repeat_findings(actions_of(steps(*again, *again)), FAILED)) == []
    assert kinds(repeat_findings(actions_of(steps(*again, *again, *again)), FAILED)) == ["repeated_call"]


def test_a_call_repeated_after_something_was_changed_is_no_loop() -> None:
    again = [calls("get", {"id": 1}), returns("Error: not found")]
    change = [calls("create", {"id": 1}), returns("created")]
    assert list(repeat_findings(actions_of(steps(*again, *change, *again)), FAILED)) == []


def test_a_run_that_succeeded_has_nothing_wrong_with_its_ending() -> None:
    assert ending(run(says("I cannot help with that.")), SUCCEEDED) == []


@pytest.mark.parametrize(
    "words",
    ["I'm unable to change that.", "I will transfer you to a human agent.", "申し訳ございませんが、対応できかねます。"],
)
def test_giving_up_is_seen(words: str) -> None:
    assert "refusal" in kinds(ending(run(asks("change it"), says(words))))


def test_success_claimed_over_an_unrepaired_failure_is_seen() -> None:
    log = [calls("book", {"a": 1}), returns("Error: card declined"), says("Your flight has been booked.")]
    (finding,) = ending(run(*log))
    assert (finding.kind, finding.steps) == ("contradicted_claim", (1, 2))
    repaired = [calls("book", {"a": 1}), returns("Error: card declined"), calls("book", {"a": 1}), returns("{}")]
    assert ending(run(*repaired, says("Your flight has been booked."))) == []


def test_an_answer_from_memory_is_seen() -> None:
    (finding,) = ending(run(says("I recall."), says("It is Lyon."), generated_answer="It is Lyon."))
    assert (finding.kind, finding.steps) == ("unverified_answer", (1,))


def test_a_number_that_no_result_holds_is_seen() -> None:
    log = [calls("sum", {"x": 1}), returns("1,250 EUR"), says("It is 1250 plus 300, 1550 in all.")]
    (finding,) = ending(run(*log, generated_answer="1250 and 1550"))
    assert finding.facts["values"] == "1550"


def test_what_a_run_broke_off_with_is_told_once() -> None:
    assert kinds(ending(run(says("x"), error_message="TimeoutError: 30 s"))) == ["run_error"]
    log = [calls("get", {}), returns("Error: quota 7 exceeded")]
    assert ending(run(*log, error_message="gave up: Error: quota 7 exceeded")) == []


def test_a_wrong_answer_is_told_where_only_the_truth_says_so() -> None:
    wrong = run(calls("look", {}), returns("London"), says("London"), generated_answer="London")
    assert kinds(ending(wrong, BY_TRUTH, "Paris")) == ["wrong_answer"]
    assert ending(wrong, FAILED, "Paris") == []


def test_two_runs_of_a_task_part_at_the_last_call_only_the_good_one_made() -> None:
    shared = [calls("find", {"user": "mia"}), returns("u1")]
    bad = actions_of(steps(*shared, calls("book", {"seat": "1A"}), returns("ok")))
    good = actions_of(steps(*shared, calls("book", {"seat": "2B"}), returns("ok")))
    finding = contrast("book a seat", bad, good, told_by_failed=True)
    assert finding is not None
    assert finding.facts["worked_arguments"] == '{"seat": "2B"}'
    assert finding.facts["changes"] == "`seat`"
    assert finding.steps == (2,)
    assert contrast("book a seat", good, good, told_by_failed=True) is None


def test_the_order_of_keys_is_no_difference() -> None:
    one = actions_of(steps(calls("book", '{"a": 1, "b": 2}'), returns("ok")))
    other = actions_of(steps(calls("book", '{"b":2,"a":1}'), returns("ok")))
    assert contrast("q", one, other, told_by_failed=True) is None


def test_a_call_that_only_the_failed_run_made_is_told() -> None:
    good = [calls("find", {"user": "mia"}), returns("u1")]
    bad = [*good, calls("cancel", {"user": "mia"}), returns("gone")]
    finding = contrast("find mia", actions_of(steps(*bad)), actions_of(steps(*good)), told_by_failed=False)
    assert finding is not None
    assert (finding.facts["failed_tool"], finding.facts["worked_tool"]) == ("cancel", "")


def test_many_steps_are_named_by_the_first_ones_and_the_last() -> None:
    assert named([3, 1, 3]) == (1, 3)
    assert named(range(100)) == (0, 1, 2, 3, 4, 5, 6, 99)
