"""Thresholds and how feedback moves them (P-75 to P-77, P-89 to P-91)."""

import pytest

from services.planner.domain.thresholds import DynamicThresholdAdjuster, InterventionLevel, Thresholds


@pytest.mark.parametrize(
    ("score", "level", "action"),
    [
        (0.9, InterventionLevel.SILENT, "proceed"),
        (0.899, InterventionLevel.NOTIFY, "proceed_with_status"),
        (0.7, InterventionLevel.NOTIFY, "proceed_with_status"),
        (0.4, InterventionLevel.CONFIRM, "ask_confirmation"),
        (0.399, InterventionLevel.ESCALATE, "request_clarification"),
    ],
)
def test_the_score_selects_the_level(score: float, level: InterventionLevel, action: str) -> None:  # P-75
    decision = Thresholds().decide_action(score)
    assert (decision.level, decision.action) == (level, action)


@pytest.mark.parametrize("values", [(0.9, 0.9, 0.4), (0.9, 0.3, 0.4), (1.1, 0.7, 0.4), (0.9, 0.7, -0.1)])
def test_thresholds_out_of_order_are_refused(values: tuple[float, float, float]) -> None:  # P-77
    with pytest.raises(ValueError, match="0 <= confirm < notify < silent <= 1"):
        Thresholds(*values)


def _adjuster_after(
    confidence: float, correct: bool, wrong_of_ten: int = 10, rounds: int = 1
) -> DynamicThresholdAdjuster:
    adjuster = DynamicThresholdAdjuster()
    for i in range(9 + rounds):
        adjuster.record(confidence, correct if i < wrong_of_ten else not correct)
    return adjuster


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [(1, (0.95, 0.75, 0.45)), (2, (0.95, 0.80, 0.50)), (3, (0.95, 0.85, 0.55)), (4, (0.95, 0.85, 0.60))],
)
def test_overconfidence_raises_the_thresholds(rounds: int, expected: tuple[float, ...]) -> None:  # P-89, P-90
    assert _adjuster_after(0.99, False, 99, rounds).thresholds.values == expected


def test_raised_thresholds_stop_at_their_caps() -> None:  # P-90
    assert _adjuster_after(0.99, False, 99, 9).thresholds.values == (0.95, 0.85, 0.60)


@pytest.mark.parametrize(
    ("rounds", "expected"), [(1, (0.85, 0.65, 0.35)), (2, (0.80, 0.60, 0.30)), (9, (0.80, 0.60, 0.30))]
)
def test_underconfidence_lowers_the_thresholds(rounds: int, expected: tuple[float, ...]) -> None:  # P-89, P-90
    assert _adjuster_after(0.1, True, 99, rounds).thresholds.values == expected


def test_four_errors_of_ten_change_the_thresholds_and_three_do_not() -> None:  # P-90
    assert _adjuster_after(0.8, False, 3).thresholds == Thresholds()
    assert _adjuster_after(0.8, False, 4).thresholds == Thresholds(0.95, 0.75, 0.45)


def test_nothing_moves_before_ten_records() -> None:  # P-89
    adjuster = DynamicThresholdAdjuster()
    assert not any(adjuster.record(0.99, False) for _ in range(9))
    assert adjuster.record(0.99, False)


def test_the_bounds_belong_to_the_harmless_side() -> None:  # P-89: > notify, < confirm
    assert _adjuster_after(0.7, False).thresholds == Thresholds()
    assert _adjuster_after(0.4, True).thresholds == Thresholds()


def test_feedback_changes_the_next_decision() -> None:  # P-76, P-89
    adjuster = DynamicThresholdAdjuster()
    before = adjuster.thresholds.decide_action(0.72).level
    for _ in range(10):
        adjuster.record(0.72, False)
    assert (before, adjuster.thresholds.decide_action(0.72).level) == (
        InterventionLevel.NOTIFY,
        InterventionLevel.CONFIRM,
    )


def test_reset_restores_what_was_configured() -> None:  # P-91
    adjuster = _adjuster_after(0.99, False)
    adjuster.reset()
    assert (adjuster.thresholds, adjuster.records) == (Thresholds(), 0)
    assert not adjuster.record(0.99, False)


def test_a_threshold_configured_beyond_its_cap_stays() -> None:  # P-90
    adjuster = DynamicThresholdAdjuster(Thresholds(0.99, 0.9, 0.5))
    for _ in range(10):
        adjuster.record(0.99, False)
    assert adjuster.thresholds.values == (0.99, 0.9, 0.55)
