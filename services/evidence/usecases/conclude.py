"""Sums up the measurements of a dataset: as a verdict, and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import ceil

import numpy as np

from services.evidence.domain.effects import estimate_effect
from services.evidence.domain.intervals import compute_interval
from services.evidence.domain.trials import INTERVAL_ERROR, DatasetTrials

SMALLEST_ARM = 20
"""Sessions of each arm below which nothing is extrapolated."""


class Verdict(Enum):
    """The conclusion from trials about the whole playbook, as a value."""

    NOT_MEASURED = "not_measured"
    CHECK_FAILED = "check_failed"
    NOT_COMPARED = "not_compared"
    NO_OUTCOMES = "no_outcomes"
    UNDECIDED = "undecided"
    HELPS = "helps"
    HARMS = "harms"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A verdict, the same in a sentence, and the estimated sessions until the verdict is HELPS or HARMS.

    `more_sessions` is 0 if it is unknown, and with any verdict other than UNDECIDED.
    """

    verdict: Verdict
    sentence: str
    more_sessions: int = 0


def conclude(trials: DatasetTrials | None) -> Conclusion:
    """Return the conclusion about the whole playbook, also if the dataset never had trials."""
    if trials is None:
        return Conclusion(Verdict.NOT_MEASURED, "Nothing is measured: this dataset never had trials.")
    for name, counts, failed in trials.list_checks():
        if failed:
            sentence = (
                f"Nothing can be concluded: the {name} are split {counts.served} to {counts.withheld}, "
                f"which does not fit the policy. Sessions of one arm are lost or report more often: "
                "check that every session reports its outcome."
            )
            return Conclusion(Verdict.CHECK_FAILED, sentence)
    if not trials.policy.playbook_holdout:
        return Conclusion(Verdict.NOT_COMPARED, "The playbook is not compared: playbook_holdout is 0.")
    if min(trials.lift.served, trials.lift.withheld) < 1:
        return Conclusion(Verdict.NO_OUTCOMES, "No conclusion yet: both arms need sessions with an outcome.")
    return _conclude_from_lift(trials)


def _conclude_from_lift(trials: DatasetTrials) -> Conclusion:
    lift = trials.lift
    lower, upper = compute_interval(lift, 1.0 - trials.policy.playbook_holdout, INTERVAL_ERROR)
    span = f"between {_format_points(lower, '+')} and {_format_points(upper, '+')} points"
    if lower > 0:
        raised = f"it raises the success rate by {_format_points(lower)} to {_format_points(upper)} points"
        return Conclusion(Verdict.HELPS, f"The playbook helps: {raised}.")
    if upper < 0:
        lowered = f"it lowers the success rate by {_format_points(-upper)} to {_format_points(-lower)} points"
        return Conclusion(Verdict.HARMS, f"The playbook harms: {lowered}.")
    if lift.evidence >= np.log(1.0 / INTERVAL_ERROR):
        verdict = Verdict.HELPS if estimate_effect(lift) > 0 else Verdict.HARMS
        return Conclusion(verdict, f"The playbook {verdict.value}; how much is not known yet ({span}).")
    sentence, more = f"No conclusion yet: the difference is {span}.", _estimate_sessions(trials)
    if more:
        points = _format_points(estimate_effect(lift), "+")
        sentence += f" If the difference stays {points} points, a conclusion needs about {more} more sessions."
    return Conclusion(Verdict.UNDECIDED, sentence, more)


def _estimate_sessions(trials: DatasetTrials) -> int:
    """Return the estimated number of sessions until the verdict is HELPS or HARMS; 0 if it is unknown.

    While the effect is constant, the logarithm of the evidence (`lift.evidence`) grows linearly.
    """
    lift = trials.lift
    if min(lift.served, lift.withheld) < SMALLEST_ARM or lift.evidence <= 0:
        return 0
    required = np.log(1.0 / INTERVAL_ERROR)
    return ceil(float((lift.served + lift.withheld) * (required / lift.evidence - 1.0)))


def _format_points(difference: float, sign: str = "") -> str:
    """Return a difference of shares in points."""
    return f"{100.0 * float(difference):{sign}.0f}"
