"""The outcome of a trajectory and the signal that proves it (R-31, R-32)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from libs.prompts.outcomes import build_test_report, is_correct
from services.reflector.domain.reflection import Signal
from services.reflector.domain.trajectory import Trajectory

REWARD_OF_SUCCESS = 0.5
"""A reward above this is a success."""

_NEGATIVE = re.compile(r"不正解|不合格|失敗|エラー|\b(?:incorrect|wrong|fail(?:s|ed|ures?)?|errors?)\b", re.I)
_NO_FAILURE = re.compile(r"\b(?:0|no|zero|without)\s+(?:fail\w*|errors?)\b|失敗(?:なし|は?0)|エラー(?:なし|は?0)", re.I)
_POSITIVE = re.compile(r"正解|合格|成功|\bcorrect\b|\bpass(?:es|ed)?\b|\bsucce(?:ss|ssful|eded)\b|\bok\b", re.I)
_NOT_POSITIVE = re.compile(r"\bnot (?:correct|pass\w*|ok|success\w*)\b|\bunsuccessful\b", re.I)
_READ_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trajectory and the signal it is based on."""

    is_success: bool
    signal: Signal

    @property
    def is_proven(self) -> bool:
        """Return whether more than the trajectory's own status proves the outcome."""
        return self.signal != "self_report"


def determine_outcome(trajectory: Trajectory, ground_truth: str, test_report: str) -> Outcome:
    """Return the outcome by the strongest signal: reward, test report, ground truth, or the trajectory's own status.

    A trajectory that names the signal of its status is trusted.
    """
    if trajectory.signal is not None:
        return Outcome(trajectory.status == "success", trajectory.signal)
    if trajectory.reward is not None:
        return Outcome(trajectory.reward > REWARD_OF_SUCCESS, "reward")
    built_here = bool(ground_truth.strip()) and test_report == build_test_report(
        trajectory.generated_answer, ground_truth
    )
    verdict = None if built_here else _parse_report(test_report)
    if verdict is not None:
        return Outcome(verdict, "test_report")
    if ground_truth.strip():
        return Outcome(is_correct(trajectory.generated_answer, ground_truth), "ground_truth")
    return Outcome(trajectory.status == "success", "self_report")


def _parse_report(test_report: str) -> bool | None:
    """Return the verdict of a report, None without one. The first line takes precedence over the rest."""
    text = test_report[:_READ_CHARS].strip()
    headline = text.partition("\n")[0]
    verdict = _parse_verdict(headline)
    return _parse_verdict(text) if verdict is None else verdict


def _parse_verdict(text: str) -> bool | None:
    text = _NO_FAILURE.sub(" pass ", text)
    if _NEGATIVE.search(text) or _NOT_POSITIVE.search(text):
        return False
    return True if _POSITIVE.search(text) else None
