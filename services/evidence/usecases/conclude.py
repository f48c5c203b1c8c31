"""Sums up the measurements of a dataset in a sentence."""

from __future__ import annotations

from math import ceil

import numpy as np

from services.evidence.domain.effects import estimate_effect
from services.evidence.domain.intervals import compute_interval
from services.evidence.domain.trials import INTERVAL_ERROR, DatasetTrials

SMALLEST_ARM = 20
"""Sessions of each arm below which nothing is extrapolated."""


def conclude(trials: DatasetTrials) -> str:
    """Return the conclusion about the whole playbook."""
    for name, counts, failed in trials.list_checks():
        if failed:
            return (
                f"Nothing can be concluded: the {name} are split {counts.served} to {counts.withheld}, "
                f"which does not fit the policy. Sessions of one arm are lost or report more often: "
                "check that every session reports its outcome."
            )
    if not trials.policy.playbook_holdout:
        return "The playbook is not compared: playbook_holdout is 0."
    lift = trials.lift
    if min(lift.served, lift.withheld) < 1:
        return "No conclusion yet: both arms need sessions with an outcome."
    lower, upper = compute_interval(lift, 1.0 - trials.policy.playbook_holdout, INTERVAL_ERROR)
    if lower > 0:
        return f"The playbook helps: it raises the success rate by {_points(lower)} to {_points(upper)} points."
    if upper < 0:
        return f"The playbook harms: it lowers the success rate by {_points(-upper)} to {_points(-lower)} points."
    if lift.evidence >= np.log(1.0 / INTERVAL_ERROR):
        word = "helps" if estimate_effect(lift) > 0 else "harms"
        span = f"between {_points(lower, '+')} and {_points(upper, '+')} points"
        return f"The playbook {word}; how much is not known yet ({span})."
    return (
        f"No conclusion yet: the difference is between {_points(lower, '+')} and {_points(upper, '+')} points."
        f"{_estimate_sessions(trials)}"
    )


def _estimate_sessions(trials: DatasetTrials) -> str:
    """Return a sentence with the estimated number of sessions until a decision; empty if it is unknown.

    The evidence of a constant effect grows linearly.
    """
    lift = trials.lift
    if min(lift.served, lift.withheld) < SMALLEST_ARM or lift.evidence <= 0:
        return ""
    required = np.log(1.0 / INTERVAL_ERROR)
    sessions = lift.served + lift.withheld
    more = ceil(sessions * (required / lift.evidence - 1.0))
    points = _points(estimate_effect(lift), "+")
    return f" If the difference stays {points} points, a decision needs about {more} more sessions."


def _points(difference: float, sign: str = "") -> str:
    """Return a difference of shares in points of a hundred."""
    return f"{100.0 * float(difference):{sign}.0f}"
