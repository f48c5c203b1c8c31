"""The test and the interval of an effect, and decisions over many bullets."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import fmean

import numpy as np
import pytest

from services.evidence.domain.assignment import draw, make_serving_id
from services.evidence.domain.assignment_check import FAILURE_EVIDENCE, compute_mismatch
from services.evidence.domain.discoveries import find_block, select_discoveries
from services.evidence.domain.drift import ALARM_EVIDENCE, DriftStatistics, watch
from services.evidence.domain.effects import (
    EffectStatistics,
    estimate_effect,
    estimate_rates,
    update,
)
from services.evidence.domain.intervals import BET_SHARES, CENTRES, compute_interval, is_within


def test_the_first_factor_is_one_and_the_second_favours_the_arm_that_succeeded() -> None:
    first = update(EffectStatistics(), 1.0, 0.75, 1.0)
    assert first.evidence == 0.0  # both rates begin at the pooled one
    # Pooled 1.5/2; served (1 + 4*.75)/5 = .8; withheld (0 + 4*.75)/4 = .75.
    assert estimate_rates(first) == (pytest.approx(0.8), pytest.approx(0.75), 0.75)
    second = update(first, 0.0, 0.75, 0.0)
    expected = Fraction(1, 4) / (Fraction(3, 4) * Fraction(1, 5) + Fraction(1, 4) * Fraction(1, 4))
    assert second.evidence == pytest.approx(math.log(expected))


@pytest.mark.parametrize("outcome", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("probability", [0.5, 0.75, 0.95])
def test_the_factor_has_expectation_one_over_the_coin(outcome: float, probability: float) -> None:
    earlier = EffectStatistics(served=7, served_total=6, withheld=3, withheld_total=0.5, evidence=0.0)
    served = update(earlier, 1.0, probability, outcome).evidence
    withheld = update(earlier, 0.0, probability, outcome).evidence
    assert probability * math.exp(served) + (1 - probability) * math.exp(withheld) == pytest.approx(1.0)


@pytest.mark.parametrize(("base", "effect", "probability"), [(0.4, 0.2, 0.75), (0.1, -0.05, 0.9), (0.9, 0.0, 0.5)])
def test_the_interval_covers_the_effect_at_all_looks(base: float, effect: float, probability: float) -> None:
    random = np.random.default_rng(7)
    runs, sessions = 200, 600
    statistics = EffectStatistics(*(np.full(runs, value) for value in EffectStatistics()))
    missed = np.zeros(runs, bool)
    for session in range(sessions):
        served = (random.random(runs) < probability).astype(float)
        outcome = (random.random(runs) < base + effect * served).astype(float)
        statistics = update(statistics, served, probability, outcome)
        if session % 15:
            continue
        lower, upper = compute_interval(statistics, probability, 0.05)
        missed |= (lower > effect) | (upper < effect)
    assert missed.mean() <= 0.05
    assert np.median(upper - lower) < 0.45
    assert estimate_effect(statistics).mean() == pytest.approx(effect, abs=0.02)


def test_the_interval_of_a_worked_example_is_computed() -> None:
    # With p = .5 and m = .5 the scores are +1 and -1; the largest bet is 1/2.
    probability, error = 0.5, 0.05
    all_avoided = EffectStatistics(served=12.0, served_total=12.0, withheld=12.0, withheld_total=0.0)
    lower, upper = compute_interval(all_avoided, probability, error)
    assert upper == 1.0

    def wealth(effect: float) -> float:
        products = []
        for centre in CENTRES:
            scores = [(1 - centre) / probability, centre / probability]
            largest = 1 / (1 + max((1 - centre) / probability, centre / probability))
            products += [
                math.prod((1 + largest * share * (score - effect)) ** 12 for score in scores) for share in BET_SHARES
            ]
        return fmean(products)

    assert wealth(lower) >= 2 / error > wealth(lower + 0.0003)


def test_without_sessions_the_interval_covers_every_effect() -> None:
    assert compute_interval(EffectStatistics(), 0.75, 0.05) == (-1.0, 1.0)
    assert not is_within(EffectStatistics(), 0.75, 0.5, 0.05)


def test_an_interval_is_within_a_margin_when_its_bounds_are() -> None:
    even = EffectStatistics(served=1500.0, served_total=750.0, withheld=500.0, withheld_total=250.0)
    lower, upper = compute_interval(even, 0.75, 0.05)
    assert -lower == pytest.approx(upper, abs=0.001)
    assert is_within(even, 0.75, upper + 0.002, 0.05)
    assert not is_within(even, 0.75, upper - 0.002, 0.05)


def test_a_reward_narrows_the_interval_no_more_than_outcomes_with_its_mean() -> None:
    rewards = outcomes = EffectStatistics()
    for session in range(200):
        served, succeeded = float(session % 4 > 0), float(session % 8 < 4)
        rewards = update(rewards, served, 0.75, 0.5)
        outcomes = update(outcomes, served, 0.75, succeeded)
    narrow, wide = compute_interval(outcomes, 0.75, 0.05), compute_interval(rewards, 0.75, 0.05)
    assert wide.upper - wide.lower >= narrow.upper - narrow.lower - 0.001


def test_the_discoveries_of_a_worked_example_are_found() -> None:
    block = find_block(0, 0.05)
    assert (block.start, block.size) == (0, 30)
    assert block.error == pytest.approx(0.04)
    # One bullet needs 30/.04 = 750; two need 375 each.
    assert select_discoveries(np.log([749.0, 2.0]).tolist(), block) == []
    assert select_discoveries(np.log([2.0, 751.0]).tolist(), block) == [1]
    assert select_discoveries(np.log([376.0, 2.0, 380.0]).tolist(), block) == [2, 0]


def test_blocks_cover_all_positions_and_spend_at_most_the_error_rate() -> None:
    blocks = {find_block(position, 0.05) for position in range(2000)}
    assert sorted(position for block in blocks for position in block.positions)[:2000] == list(range(2000))
    assert sum(block.error for block in blocks) < 0.05


def test_assignments_are_sticky_and_uniform() -> None:
    key = b"k" * 32
    draws = np.array([draw(key, f"session-{number}", "b-1:v") for number in range(4000)])
    assert draws[17] == draw(key, "session-17", "b-1:v")
    assert np.abs(np.histogram(draws, bins=10, range=(0, 1))[0] - 400).max() < 90
    others = np.array([draw(key, f"session-{number}", "b-2:v") for number in range(4000)])
    assert abs(np.corrcoef(draws, others)[0, 1]) < 0.05
    assert make_serving_id(key, "a") == make_serving_id(key, "a") != make_serving_id(b"x" * 32, "a")
    assert draw(key, "ab", "c") != draw(key, "a", "bc")


def test_a_split_that_does_not_fit_the_policy_fails_the_check() -> None:
    assert compute_mismatch(750, 250, 0.75) < FAILURE_EVIDENCE
    assert compute_mismatch(7000, 3000, 0.75) >= FAILURE_EVIDENCE
    assert compute_mismatch(5, 0, 1.0) == 0.0


def test_a_proven_bullet_that_turns_harmful_raises_the_alarm() -> None:
    random = np.random.default_rng(3)
    runs, probability = 200, 0.9
    statistics = DriftStatistics(np.full(runs, 0.5), np.zeros(runs))
    raised_before = np.zeros(runs, bool)
    raised_at = np.full(runs, np.inf)
    for session in range(1600):
        effect = 0.2 if session < 800 else -0.2
        served = (random.random(runs) < probability).astype(float)
        outcome = (random.random(runs) < 0.5 + effect * (served - 0.5)).astype(float)
        statistics = watch(statistics, served, probability, outcome)
        raised = statistics.alarm >= ALARM_EVIDENCE
        if session < 800:
            raised_before |= raised
        else:
            raised_at[raised & np.isinf(raised_at)] = session - 799
    assert raised_before.mean() <= 0.02
    assert np.median(raised_at) <= 600
