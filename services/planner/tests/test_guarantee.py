"""Calibration and thresholds with a guarantee, on simulated users."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.planner.domain.calibration import UNCALIBRATED
from services.planner.domain.fits import fit_calibration
from services.planner.domain.guarantee import CANDIDATES, MIN_BAND_LABELS, StepLabel, ThresholdGuarantee, weigh
from services.planner.domain.labels import LabelQueue
from services.planner.tests.users import USERS, User, true_errors
from tests.support.campaigns import campaign_size

ALPHA = DELTA = 0.10
STEPS = 600
RUNS = campaign_size(500, 25)
"""The simulated users; `bench/planner` measures more cases."""


def used_thresholds(user: User, seed: int) -> set[float]:
    """The thresholds that one run uses; labels of wrong results come last."""
    rng = np.random.default_rng(seed)
    scores, _, labelled, arrives = user.steps(rng, STEPS)
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    queue = LabelQueue(guarantee)
    due: dict[int, list[int]] = {}
    used: set[float] = set()
    for now in range(STEPS):
        threshold, rate = guarantee.threshold, guarantee.audit_rate
        passes = threshold is not None and scores[now] >= threshold
        if threshold is not None:
            used.add(threshold)
        if not passes or rng.random() < rate:
            queue.select(str(now), 1, float(scores[now]), rate if passes else 1.0, rate)
            queue.end(str(now))
            due.setdefault(int(arrives[now]), []).append(now)
        for step in due.pop(now, ()):
            queue.label(str(step), 1, bool(labelled[step]))
    return used


@pytest.mark.parametrize("name", sorted(USERS))
def test_a_threshold_with_too_many_errors_is_hardly_ever_used(name: str) -> None:
    user = USERS[name]
    errors = true_errors(user, CANDIDATES, 100_000)
    bad = {t for t, error in errors.items() if error > ALPHA}
    runs = [used_thresholds(user, seed) for seed in range(RUNS)]
    broken = sum(bool(used & bad) for used in runs)
    assert broken <= DELTA * RUNS, f"{broken} of {RUNS} runs used one of {sorted(bad)}"


def test_the_guarantee_does_not_rely_on_never_using_a_threshold() -> None:
    runs = [used_thresholds(USERS["underconfident"], seed) for seed in range(20)]
    assert sum(bool(used) for used in runs) >= 18


def test_without_the_weights_the_guarantee_would_break() -> None:
    """The test above can fail: a learner that counts labels as they come, unweighted and at once, breaks the bound."""
    user = USERS["overconfident"]
    bad = {t for t, error in true_errors(user, CANDIDATES).items() if error > ALPHA}

    def naive(seed: int) -> bool:
        scores, _, labelled, _ = user.steps(np.random.default_rng(seed), STEPS)
        for n in range(20, STEPS):
            for t in bad:
                above = scores[:n] >= t
                if above.sum() >= 10 and labelled[:n][above].mean() <= ALPHA:
                    return True
        return False

    assert sum(naive(seed) for seed in range(50)) > 5


def learn_all_bands(guarantee: ThresholdGuarantee, number: int, wrong: bool = False) -> None:
    for _ in range(number):
        for threshold in CANDIDATES:
            guarantee.learn(threshold + 0.02, wrong, 1.0, 1.0)


def test_labels_change_the_next_decision() -> None:
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    assert (guarantee.threshold, guarantee.audit_rate) == (None, 1.0)
    learn_all_bands(guarantee, 20)
    assert guarantee.threshold == CANDIDATES[-1]
    assert guarantee.audit_rate < 1
    wrong = ThresholdGuarantee(ALPHA, DELTA)
    learn_all_bands(wrong, 20, wrong=True)
    assert wrong.threshold is None


def test_a_threshold_needs_labels_of_its_own_band() -> None:
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    for _ in range(200):
        guarantee.learn(0.97, False, 1.0, 1.0)
    assert guarantee.threshold == 0.95
    for _ in range(MIN_BAND_LABELS):
        guarantee.learn(0.72, False, 1.0, 1.0)
    assert guarantee.threshold == 0.70


def test_an_execution_counts_once_however_many_steps_it_has() -> None:
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    guarantee.prove([StepLabel(0.97, False, 1.0)] * 1_000, 1.0)
    once = ThresholdGuarantee(ALPHA, DELTA)
    once.prove([StepLabel(0.97, False, 1.0)], 1.0)
    assert wealths(guarantee) == pytest.approx(wealths(once))


def test_a_threshold_is_revoked_when_its_steps_go_wrong() -> None:
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    learn_all_bands(guarantee, 20)
    rate = guarantee.audit_rate
    for _ in range(10):
        guarantee.learn(0.97, True, rate, rate)
    assert guarantee.threshold is None
    assert guarantee.revocations >= 1
    learn_all_bands(guarantee, 60)
    assert guarantee.threshold == CANDIDATES[-1]


def test_a_wrong_audit_raises_the_audit_rate() -> None:
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    learn_all_bands(guarantee, 20)
    for _ in range(400):
        guarantee.learn(0.97, False, guarantee.audit_rate, guarantee.audit_rate)
    calm = guarantee.audit_rate
    assert calm == guarantee.min_rate
    for _ in range(2):
        guarantee.learn(0.97, True, guarantee.audit_rate, guarantee.audit_rate)
    assert guarantee.audit_rate > 10 * calm


def test_the_audit_rate_falls_with_the_errors_that_passed_steps_could_still_have() -> None:
    """200 right labels: the share of wrong ones is (0 + 10 * .05) / 210, with the prior of ten labels."""
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    for _ in range(200):
        guarantee.learn(0.97, False, 1.0, 1.0)
    for _ in range(50):
        guarantee.count_selection(0.97, 0.1)  # each stands for nine steps that passed
    credit = 50 * 9 * (ALPHA - 0.5 / 210)
    assert guarantee.audit_rate == pytest.approx(-math.log(DELTA) / credit)


def test_wrong_results_of_asked_steps_raise_the_audit_rate() -> None:
    """Steps with a score of .3 never pass. When more of them are wrong, steps that pass are audited more often."""
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    learn_all_bands(guarantee, 30)
    for number in range(300):
        guarantee.learn(0.3, number % 4 == 0, 1.0, 1.0)
        guarantee.learn(0.97, False, 0.1, 0.1)
    calm, threshold = guarantee.audit_rate, guarantee.threshold
    rates = []
    for number in range(40):
        guarantee.learn(0.3, number % 4 != 0, 1.0, 1.0)
        rates.append(guarantee.audit_rate)
    assert max(rates) > 10 * calm
    assert guarantee.threshold == threshold, "labels of other steps revoke nothing"


def test_a_change_that_no_audit_confirms_raises_the_audit_rate_for_a_while() -> None:
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    learn_all_bands(guarantee, 30)
    rates = []
    for number in range(3_000):
        guarantee.learn(0.3, number % 4 == 0 if number < 1_500 else number % 4 != 0, 1.0, 1.0)
        guarantee.learn(0.97, False, 0.1, 0.1)
        rates.append(guarantee.audit_rate)
    calm, after = rates[1_499], rates[1_500:]
    assert max(after) == 1
    assert sum(rate > 2 * calm for rate in after) < 100
    assert guarantee.threshold == CANDIDATES[-1]


def test_a_stricter_threshold_is_used_while_recent_steps_are_harder() -> None:
    """Errors at .62 are frequent. While such scores are rare, a threshold of .60 has few errors."""
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    for number in range(400):
        guarantee.learn(0.97, False, 1.0, 1.0)
        if number % 10 == 0:
            guarantee.learn(0.62, number % 30 == 0, 1.0, 1.0)
    assert guarantee.threshold == 0.60
    for _ in range(200):
        guarantee.count_selection(0.62, 1.0)
    assert guarantee.threshold == 0.95, "the thresholds between have no labels of their own"
    for _ in range(1_000):
        guarantee.count_selection(0.97, 1.0)
    assert guarantee.threshold == 0.60


def wealths(guarantee: ThresholdGuarantee) -> list[float]:
    return [candidate.log_wealth for candidate in guarantee._candidates]


LABELS = st.builds(StepLabel, st.floats(0.5, 1.0), st.booleans(), st.sampled_from([0.05, 0.2, 1.0]))


@given(st.lists(st.lists(LABELS, min_size=1, max_size=4), max_size=30), st.integers(1, 5), st.sampled_from([0.05, 1.0]))
def test_no_bet_has_a_positive_expectation(history: list[list[StepLabel]], steps: int, rate: float) -> None:
    """After any labels: if all steps of an execution are wrong with probability alpha, the wealth grows nowhere."""
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    for labels in history:
        guarantee.prove(labels, min(label.probability for label in labels))
    expected = np.zeros(len(CANDIDATES))
    for wrong, weight in ((True, ALPHA), (False, 1 - ALPHA)):
        after = copy.deepcopy(guarantee)
        after.prove([StepLabel(0.99, wrong, 1.0)] * steps, rate)
        expected += weight * np.exp(np.array(wealths(after)) - np.array(wealths(guarantee)))
    assert (expected <= 1 + 1e-9).all()


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6))
def test_a_weight_is_the_expectation_over_what_is_kept(keep: list[float]) -> None:
    for position in range(len(keep)):
        expected = 0.0
        for choice in itertools.product((False, True), repeat=len(keep)):
            if choice[position]:
                expected += math.prod(p if k else 1 - p for p, k in zip(keep, choice, strict=True)) / sum(choice)
        assert weigh(keep, position) == pytest.approx(expected)


def steps_until_revoked(before: float, after: float, seed: int) -> int | None:
    """Return the steps from a change of the error rate, at 1,000, until a revocation; negative: before it."""
    rng = np.random.default_rng(seed)
    guarantee = ThresholdGuarantee(ALPHA, DELTA)
    for now in range(3_000):
        rate = guarantee.audit_rate
        if rng.random() < rate:
            guarantee.learn(0.97, bool(rng.random() < (before if now < 1_000 else after)), rate, rate)
        if guarantee.revocations:
            return now - 1_000
    return None


@pytest.mark.parametrize(("before", "after", "steps"), [(0.03, 0.49, 250), (0.05, 0.20, 600)])
def test_a_change_is_noticed_soon(before: float, after: float, steps: int) -> None:
    delays = [steps_until_revoked(before, after, seed) for seed in range(campaign_size(400, 20))]
    late = [2_000 if delay is None else delay for delay in delays if delay is None or delay >= 0]
    assert np.median(late) <= steps


def test_without_a_change_nothing_is_revoked() -> None:
    runs = campaign_size(400, 20)
    assert sum(steps_until_revoked(0.03, 0.03, seed) is not None for seed in range(runs)) <= 0.05 * runs


@pytest.mark.parametrize(("probability", "floor"), [(0.05, 0.1), (0.0, 0.0), (1.5, 0.1)])
def test_impossible_probabilities_are_refused(probability: float, floor: float) -> None:
    with pytest.raises(ValueError, match="floor <= probability"):
        ThresholdGuarantee(ALPHA, DELTA).learn(0.9, False, probability, floor)


def expected_error(predicted: np.ndarray, correct: np.ndarray) -> float:
    """Expected calibration error over ten bins of equal size."""
    order = np.argsort(predicted, kind="stable")
    bins = zip(np.array_split(predicted[order], 10), np.array_split(correct[order], 10), strict=True)
    return float(np.mean([abs(p.mean() - c.mean()) for p, c in bins]))


@pytest.mark.parametrize("name", sorted(USERS))
def test_the_calibration_error_is_near_its_floor_after_300_labels(name: str) -> None:
    """The floor is the error of the true probabilities on the same 2,000 steps."""
    user = USERS[name]
    excess = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        scores, _, labelled, _ = user.steps(rng, 300)
        calibration = fit_calibration(scores.tolist(), (~labelled).tolist())
        fresh, right = user.draw(rng, 2_000)
        right = right * (1 - user.flips) + (1 - right) * user.flips
        correct = (rng.random(2_000) < right).astype(float)
        floor = expected_error(right, correct)
        excess.append(expected_error(calibration.predict(fresh), correct) - floor)
    assert np.mean(excess) <= 0.02


def test_few_labels_or_labels_of_one_kind_calibrate_nothing() -> None:
    assert fit_calibration([0.5] * 19, [True, False] * 9 + [True]) is UNCALIBRATED
    assert fit_calibration([0.5] * 30, [True] * 30) is UNCALIBRATED
    assert UNCALIBRATED(0.3) == 0.3


def test_the_fit_is_chosen_by_what_it_predicts() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(3_000)
    stepped = np.where(scores > 0.6, 0.95, np.where(scores > 0.3, 0.5, 0.45))
    many = fit_calibration(scores.tolist(), (rng.random(3_000) < stepped).tolist())
    smooth = fit_calibration(scores[:60].tolist(), (rng.random(60) < scores[:60]).tolist())
    assert (many.kind, smooth.kind) == ("isotonic", "platt")
    assert many(0.9) == pytest.approx(0.95, abs=0.03)


def test_a_calibration_never_falls() -> None:
    rng = np.random.default_rng(2)
    scores = rng.random(200)
    for labels in (rng.random(200) < scores, rng.random(200) < 0.9 * scores + 0.1):
        grid = fit_calibration(scores.tolist(), labels.tolist()).predict(np.linspace(0, 1, 101))
        assert (np.diff(grid) >= -1e-12).all()
        assert ((grid >= 0) & (grid <= 1)).all()
