"""The order in which labels are used, and the treatment of missing labels."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from services.planner.domain.guarantee import ThresholdGuarantee
from services.planner.domain.labels import MAX_LATER_QUESTIONS, LabelQueue

STEPS = st.lists(st.tuples(st.integers(0, 9), st.floats(0.5, 1.0), st.booleans()), max_size=MAX_LATER_QUESTIONS)


def make_queue() -> LabelQueue:
    return LabelQueue(ThresholdGuarantee(0.1, 0.1))


def learn_steps(steps: list[tuple[int, float, bool]], order: list[int]) -> LabelQueue:
    """Select all steps of ten executions, then label them in an order."""
    queue = make_queue()
    for number, (execution, value, _) in enumerate(steps):
        queue.select(str(execution), number, value, 1.0, 1.0)
    for execution in range(10):
        queue.end(str(execution))
    for number in order:
        queue.label(str(steps[number][0]), number, steps[number][2])
    return queue


@given(STEPS, st.randoms(use_true_random=False))
def test_the_order_in_which_labels_come_changes_no_proof(
    steps: list[tuple[int, float, bool]], rng: random.Random
) -> None:
    ordered = list(range(len(steps)))
    shuffled = rng.sample(ordered, len(ordered))
    first, second = learn_steps(steps, ordered), learn_steps(steps, shuffled)
    if first.guarantee.revocations == second.guarantee.revocations == 0:
        assert [c.log_wealth for c in first.guarantee._candidates] == [
            c.log_wealth for c in second.guarantee._candidates
        ]
    assert (first.labelled, first.waiting, first.missing) == (len(steps), 0, 0)


@given(st.lists(st.tuples(st.sampled_from(["select", "label", "end"]), st.integers(0, 30)), max_size=400))
def test_every_selected_step_is_labelled_waiting_or_missing(events: list[tuple[str, int]]) -> None:
    queue = make_queue()
    for number, (kind, execution) in enumerate(events):
        if kind == "select":
            queue.select(str(execution), 1, 0.9, 1.0, 1.0)
        elif kind == "label":
            queue.label(str(execution), 1, number % 5 == 0)
        else:
            queue.end(str(execution))
        assert queue.selected == queue.labelled + queue.waiting + queue.missing
        assert 0 <= queue.waiting <= queue.selected


def learn_one(queue: LabelQueue, execution: str, wrong: bool | None) -> None:
    queue.select(execution, 1, 0.97, 1.0, 1.0)
    queue.end(execution)
    if wrong is not None:
        queue.label(execution, 1, wrong)


def test_a_missing_label_holds_up_no_more_than_a_hundred_questions() -> None:
    queue = make_queue()
    learn_one(queue, "silent", None)
    for number in range(MAX_LATER_QUESTIONS - 1):
        learn_one(queue, str(number), False)
    assert (queue.guarantee.threshold, queue.waiting, queue.missing) == (None, 1, 0)
    learn_one(queue, "last", False)
    assert (queue.guarantee.threshold, queue.waiting, queue.missing) == (0.95, 0, 1)
    queue.label("silent", 1, True)  # too late
    assert (queue.labelled, queue.missing) == (MAX_LATER_QUESTIONS, 1)


def test_a_missing_label_does_not_hide_a_change() -> None:
    queue = make_queue()
    for number in range(60):
        learn_one(queue, f"right {number}", False)
    assert queue.guarantee.threshold == 0.95
    learn_one(queue, "silent", None)
    for number in range(10):
        learn_one(queue, f"wrong {number}", True)
    found: tuple[float | None, int] = (queue.guarantee.threshold, queue.guarantee.revocations)
    assert found == (None, 1)


def test_labels_of_decisions_before_a_revocation_prove_nothing_after_it() -> None:
    queue = make_queue()
    for number in range(60):
        learn_one(queue, f"right {number}", False)
    learn_one(queue, "silent", None)
    for number in range(60):
        learn_one(queue, f"held up {number}", False)
    for number in range(30):
        learn_one(queue, f"wrong {number}", True)
    assert queue.guarantee.revocations == 1
    queue.label("silent", 1, False)  # 60 correct results are no longer held up
    assert queue.guarantee.threshold is None


def test_a_running_execution_is_not_used_before_its_end() -> None:
    queue = make_queue()
    queue.select("running", 1, 0.97, 1.0, 1.0)
    queue.label("running", 1, False)
    for number in range(60):
        learn_one(queue, str(number), False)
    assert queue.guarantee.threshold is None
    queue.end("running")
    assert queue.guarantee.threshold == 0.95
