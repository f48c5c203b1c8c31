"""The test report that the system builds from a ground truth (R-31, R-32)."""

from __future__ import annotations

from collections.abc import Mapping

from libs.prompts.language import Language

_REPORTS: Mapping[Language, tuple[str, str]] = {
    "ja": ("正解", "不正解（正解: {truth}）"),
    "en": ("correct", "incorrect (correct answer: {truth})"),
}


def is_correct(generated_answer: str, ground_truth: str) -> bool:
    """Return whether the stripped ground truth is non-empty and contained in the answer (R-31)."""
    truth = ground_truth.strip()
    return bool(truth) and truth in generated_answer


def build_test_report(generated_answer: str, ground_truth: str, language: Language = "ja") -> str:
    """Return the test report that the system generates itself (R-32)."""
    correct, incorrect = _REPORTS[language]
    return correct if is_correct(generated_answer, ground_truth) else incorrect.format(truth=ground_truth)
