"""Confidence: every vector of section 5 of the specification."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from services.planner.domain.confidence import (
    ConfidenceCalculator,
    ConfidenceFactors,
    ConfidenceWeights,
    aggregate,
    aggregate_with_critical_check,
    compute_final_confidence,
    compute_search_statistics,
    confidence_level,
    measure_agreement,
    search_quality,
)

A = {
    "search_result_count": 5,
    "search_avg_score": 0.9,
    "search_max_score": 0.95,
    "search_score_variance": 0.05,
    "source_agreement": 0.95,
    "source_count": 3,
    "llm_self_confidence": 0.9,
    "query_coverage": 0.95,
}
C = {
    "is_search_step": True,
    "search_result_count": 3,
    "search_avg_score": 0.8,
    "search_max_score": 0.85,
    "search_score_variance": 0.01,
    "source_agreement": 0.5,
    "source_count": 1,
}
D = {
    "is_search_step": True,
    "search_result_count": 0,
    "search_avg_score": 0,
    "search_max_score": 0,
    "source_agreement": 1,
    "source_count": 0,
}
E = {
    "search_result_count": 1,
    "search_avg_score": 0.85,
    "search_max_score": 0.85,
    "search_score_variance": 1,
    "source_agreement": 0.5,
    "source_count": 3,
}
F = {
    "search_result_count": 3,
    "search_avg_score": 0.8,
    "search_max_score": 0.8,
    "search_score_variance": 0,
    "source_agreement": 0.5,
    "source_count": 2,
    "llm_self_confidence": 0.8,
    "tool_success_rate": 0.5,
}
J = {
    "is_search_step": True,
    "search_result_count": 2,
    "search_avg_score": 0.7,
    "search_max_score": 0.9,
    "search_score_variance": 0.01,
    "tool_execution_count": 4,
    "tool_success_count": 3,
}
RATE = {"tool_success_rate": 1.0}


@pytest.mark.parametrize(
    ("factors", "score", "penalties"),
    [
        pytest.param(A, 0.920, (), id="A"),
        pytest.param(A | RATE, 0.930, (), id="A2"),
        pytest.param({}, 0.0, (), id="B"),
        pytest.param(C, 0.832, (), id="C"),
        pytest.param(C | RATE, 0.871, (), id="C2"),
        pytest.param(C | RATE | {"source_count": 2}, 0.784, (), id="C3"),
        pytest.param(D, 0.0, ("no_search_results",), id="D"),
        pytest.param(D | RATE, 0.115, ("no_search_results",), id="D2"),
        pytest.param(E, 0.611, (), id="E"),
        pytest.param(E | RATE, 0.708, (), id="E2 rate"),
        pytest.param(E | RATE | {"search_score_variance": 0}, 0.771, (), id="E2 rate and variance"),
        pytest.param(E | RATE | {"search_score_variance": 0, "llm_self_confidence": 0.9}, 0.830, (), id="E2 with self"),
        pytest.param(F, 0.634, ("tool_failures(rate=0.50)",), id="F"),
        pytest.param(F | {"is_search_step": True}, 0.609, ("tool_failures(rate=0.50)",), id="F2"),
        pytest.param(RATE | {"llm_self_confidence": 0.75, "source_count": 0}, 0.565, ("no_sources",), id="G"),
        pytest.param(RATE | {"llm_self_confidence": 0.8, "source_count": 0}, 0.846, (), id="G sure"),
        pytest.param(RATE, 0.0, (), id="H"),
        pytest.param({"llm_self_confidence": 0.5}, 0.350, ("no_sources",), id="I"),
        pytest.param(J, 0.776, ("tool_failures(rate=0.75)",), id="J"),
    ],
)
def test_the_score_is_that_of_the_vector(
    factors: dict[str, Any], score: float, penalties: tuple[str, ...]
) -> None:  # P-59 to P-67
    found = ConfidenceCalculator().calculate(ConfidenceFactors(**factors))
    assert found.score == pytest.approx(score, abs=1e-9)
    assert found.penalties_applied == penalties


@pytest.mark.parametrize(("factors", "quality"), [(A, 0.920), (C, 0.832), (E, 0.700), (F, 0.800), (J, 0.837)])
def test_search_quality_is_that_of_the_vector(factors: dict[str, Any], quality: float) -> None:  # P-61
    assert search_quality(ConfidenceFactors(**factors)) == pytest.approx(quality)


def test_unset_factors_have_defaults_and_are_not_supplied() -> None:  # P-58, P-59
    empty = ConfidenceFactors()
    assert (empty.search_score_variance, empty.llm_self_confidence, empty.tool_success_rate) == (1.0, 0.5, 1.0)
    assert not empty.has_any("llm_self_confidence")
    assert ConfidenceFactors(llm_self_confidence=0.5).has_any("llm_self_confidence")


def test_nothing_measured_has_no_breakdown() -> None:  # P-63, P-64, P-139
    for factors in ({}, RATE, {"tool_execution_count": 1, "tool_success_count": 0}):
        found = ConfidenceCalculator().calculate(ConfidenceFactors(**factors))
        assert (found.score, found.breakdown, found.penalties_applied) == (0.0, {}, ())


def test_a_failed_tool_call_is_a_penalty() -> None:  # P-72: a search rescued by its fallback
    rescued = ConfidenceFactors(llm_self_confidence=0.9, tool_execution_count=2, tool_success_count=1, source_count=1)
    assert ConfidenceCalculator().calculate(rescued).penalties_applied == ("tool_failures(rate=0.50)",)


def test_weights_must_sum_to_one() -> None:  # P-60
    with pytest.raises(ValueError, match=r"^Weights must sum to 1\.0, got 1\.25$"):
        ConfidenceWeights(search_quality=0.5)
    ConfidenceWeights(search_quality=0.255)


def test_a_factor_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValidationError):
        ConfidenceFactors(search_avg_score=float("nan"))


@pytest.mark.parametrize(
    ("score", "level"),
    [(0.9, "high"), (0.899, "medium"), (0.7, "medium"), (0.699, "low"), (0.4, "low"), (0.399, "very_low")],
)
def test_a_score_has_a_level(score: float, level: str) -> None:  # P-68
    assert confidence_level(score) == level


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([0.9, 0.7], (2, 0.8, 0.01, 0.9, 0.7)), ([0.8], (1, 0.8, 0, 0.8, 0.8)), ([], (0, 0, 1.0, 0, 0))],
)
def test_search_statistics_are_computed(scores: list[float], expected: tuple[float, ...]) -> None:  # P-30
    found = compute_search_statistics(scores)
    got = (found.result_count, found.avg_score, found.score_variance, found.max_score, found.min_score)
    assert got == pytest.approx(expected)


def test_agreement_is_the_mean_pairwise_cosine() -> None:  # P-70
    assert measure_agreement(np.zeros((1, 3), dtype=np.float32)) == 1.0
    same, other, zero = [1, 0, 0], [0, 1, 0], [0, 0, 0]
    assert measure_agreement(np.array([same, same], dtype=np.float32)) == pytest.approx(1.0)
    assert measure_agreement(np.array([same, same, other], dtype=np.float32)) == pytest.approx(1 / 3)
    assert measure_agreement(np.array([same, zero], dtype=np.float32)) == 0.0
    assert measure_agreement(np.array([same, [-1, 0, 0]], dtype=np.float32)) == 0.0


def test_confidences_are_aggregated_by_each_method() -> None:  # P-73
    assert aggregate([0.5, 0.9], "weighted") == pytest.approx(0.76666667)
    assert aggregate([0.5, 0.9], "mean") == pytest.approx(0.7)
    assert aggregate([0.5, 0.9], "min") == 0.5
    assert aggregate([], "min") == 0
    for scores in ([], [0.5]):
        with pytest.raises(ValueError, match=r"^Unknown aggregation method: median$"):
            aggregate(scores, "median")


def test_a_critical_step_lowers_the_mean() -> None:  # P-74
    for scores, expected, critical in (([0.8, 0.2], 0.35, True), ([0.8, 0.3], 0.55, False)):
        value, found = aggregate_with_critical_check(scores)
        assert value == pytest.approx(expected)
        assert found is critical


@pytest.mark.parametrize(
    ("scores", "self_evaluation", "coverage", "expected"),
    [
        ([0.5, 0.9], None, None, 0.767),
        ([0.5, 0.9], 0.8, None, 0.775),
        ([0.5, 0.9], 0.8, 0.9, 0.795),
        ([0.9, 0.0], None, None, 0.3),
        ([0.9, 0.0], 0.8, 0.9, 0.515),
        ([], None, None, 0.0),
    ],
)
def test_the_final_confidence_is_that_of_the_vector(
    scores: list[float], self_evaluation: float | None, coverage: float | None, expected: float
) -> None:  # P-56
    assert compute_final_confidence(scores, ConfidenceWeights(), self_evaluation, coverage) == expected


_unit = st.floats(-2, 3)


@given(
    factors=st.fixed_dictionaries(
        {},
        optional={
            "search_result_count": st.integers(0, 50),
            "search_avg_score": _unit,
            "search_max_score": _unit,
            "search_score_variance": st.floats(0, 3),
            "source_agreement": _unit,
            "source_count": st.integers(0, 9),
            "llm_self_confidence": _unit,
            "tool_success_rate": _unit,
            "tool_execution_count": st.integers(0, 9),
            "tool_success_count": st.integers(0, 9),
            "query_coverage": _unit,
            "is_search_step": st.booleans(),
        },
    )
)
def test_confidence_stays_in_range_and_needs_evidence(factors: dict[str, Any]) -> None:  # P-65, P-139
    found = ConfidenceCalculator().calculate(ConfidenceFactors(**factors))
    assert 0 <= found.score <= 1
    evidence = set(factors) - {"tool_success_rate", "tool_execution_count", "tool_success_count", "is_search_step"}
    if not evidence or not found.breakdown:
        assert found.score == 0
