from __future__ import annotations

import pytest

from libs.prompts.outcomes import build_test_report, is_correct
from services.reflector.domain.outcome import Outcome, determine_outcome
from services.reflector.tests.trajectories import build_trajectory


@pytest.mark.parametrize(
    ("answer", "truth", "correct"),
    [
        ("It is 42.", " 42 \n", True),
        ("It is 42.", "43", False),
        ("It is 42.", "", False),
        ("", "  ", False),
        ("正解は東京です", "東京", True),
    ],
)
def test_an_answer_is_correct_when_it_contains_the_ground_truth(answer: str, truth: str, correct: bool) -> None:
    assert is_correct(answer, truth) is correct


def test_the_built_in_report_has_the_specified_text() -> None:
    assert build_test_report("It is 42.", "42") == "正解"
    assert build_test_report("It is 42.", "43") == "不正解（正解: 43）"


@pytest.mark.parametrize(
    ("report", "is_success"),
    [
        ("正解", True),
        ("不正解（正解: 43）", False),
        ("passed: newest commit is Release\n$ git log\nfix the error page", True),
        ("failed: no commit", False),
        ("3 passed, 1 failed", False),
        ("12 passed, 0 failed", True),
        ("The answer is correct.", True),
        ("The answer is incorrect.", False),
        ("not correct", False),
        ("テストに合格", True),
        ("log follows\nAssertionError: wrong total", False),
    ],
)
def test_a_test_report_determines_the_outcome(report: str, is_success: bool) -> None:
    assert determine_outcome(build_trajectory(status="success"), "", report) == Outcome(is_success, "test_report")


def test_the_strongest_signal_decides() -> None:
    lucky = build_trajectory(status="success", reward=0.0, generated_answer="42")
    assert determine_outcome(lucky, "42", "passed") == Outcome(False, "reward")
    answered = build_trajectory(status="failure", generated_answer="42")
    assert determine_outcome(answered, "43", "passed") == Outcome(True, "test_report")
    assert determine_outcome(answered, "42", "the log of the run") == Outcome(True, "ground_truth")
    assert determine_outcome(answered, " ", "") == Outcome(False, "self_report")


def test_a_report_built_from_the_ground_truth_is_no_test() -> None:
    answered = build_trajectory(generated_answer="42")
    assert determine_outcome(answered, "43", build_test_report("42", "43")) == Outcome(False, "ground_truth")


def test_a_trajectory_with_a_signal_is_trusted() -> None:
    assert determine_outcome(build_trajectory(status="success", signal="test_report", reward=0.0), "", "") == Outcome(
        True, "test_report"
    )
