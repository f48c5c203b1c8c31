"""How a run ended, and how reliably that is known (R-31, R-32)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.reflector.domain.reflection import Signal
from services.reflector.domain.trajectory import Trajectory

REWARD_OF_SUCCESS = 0.5
"""A reward above this is a success."""

_NEGATIVE = re.compile(r"不正解|不合格|失敗|エラー|\b(?:incorrect|wrong|fail(?:s|ed|ures?)?|errors?)\b", re.I)
_NO_FAILURE = re.compile(r"\b(?:0|no|zero|without)\s+(?:fail\w*|errors?)\b|失敗(?:なし|は?0)|エラー(?:なし|は?0)", re.I)
_POSITIVE = re.compile(r"正解|合格|成功|\bcorrect\b|\bpass(?:es|ed)?\b|\bsucce(?:ss|ssful|eded)\b|\bok\b", re.I)
_NOT_POSITIVE = re.compile(r"\bnot (?:correct|pass\w*|ok|success\w*)\b|\bunsuccessful\b", re.I)
_READ_CHARS = 20_000


def is_correct(generated_answer: str, ground_truth: str) -> bool:
    """The stripped ground truth is non-empty and contained in the answer (R-31)."""
    truth = ground_truth.strip()
    return bool(truth) and truth in generated_answer


def report_for(generated_answer: str, ground_truth: str) -> str:
    """The report the system builds itself (R-32)."""
    return "正解" if is_correct(generated_answer, ground_truth) else f"不正解（正解: {ground_truth}）"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a run succeeded, and what says so."""

    succeeded: bool
    signal: Signal

    @property
    def proven(self) -> bool:
        """Whether more than the run's own word says so."""
        return self.signal != "self_report"


def outcome_of(trajectory: Trajectory, ground_truth: str, test_report: str) -> Outcome:
    """How the run ended, by the strongest signal there is: reward, test report, ground truth, the run's own status.

    A run that says what its status rests on is believed.
    """
    if trajectory.signal is not None:
        return Outcome(trajectory.status == "success", trajectory.signal)
    if trajectory.reward is not None:
        return Outcome(trajectory.reward > REWARD_OF_SUCCESS, "reward")
    built_here = bool(ground_truth.strip()) and test_report == report_for(trajectory.generated_answer, ground_truth)
    verdict = None if built_here else _verdict(test_report)
    if verdict is not None:
        return Outcome(verdict, "test_report")
    if ground_truth.strip():
        return Outcome(is_correct(trajectory.generated_answer, ground_truth), "ground_truth")
    return Outcome(trajectory.status == "success", "self_report")


def _verdict(test_report: str) -> bool | None:
    """What a report says, None if it says neither or nothing. Its first line counts before what it quotes below."""
    text = test_report[:_READ_CHARS].strip()
    headline = text.partition("\n")[0]
    verdict = _verdict_of(headline)
    return _verdict_of(text) if verdict is None else verdict


def _verdict_of(text: str) -> bool | None:
    text = _NO_FAILURE.sub(" pass ", text)
    if _NEGATIVE.search(text) or _NOT_POSITIVE.search(text):
        return False
    return True if _POSITIVE.search(text) else None
