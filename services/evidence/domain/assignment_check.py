"""Check that as many sessions were served as the policy says (sample ratio mismatch)."""

from __future__ import annotations

from math import lgamma, log

FAILURE_EVIDENCE = log(1000.0)
PRIOR_SESSIONS = 100.0
"""Weight of the expected share in the prior of the alternative, in sessions."""


def compute_mismatch(served: int, withheld: int, expected_share: float) -> float:
    """Return the logarithm of the evidence that the share of served sessions is not `expected_share`.

    The ratio of a beta-binomial and a binomial likelihood is a test martingale: it reaches `FAILURE_EVIDENCE` with
    probability at most 1/1000 at any time if the assignment works (Lindon and Malek 2022).
    """
    if not 0.0 < expected_share < 1.0:
        return 0.0
    first, second = PRIOR_SESSIONS * expected_share, PRIOR_SESSIONS * (1.0 - expected_share)
    mixture = _compute_log_beta(first + served, second + withheld) - _compute_log_beta(first, second)
    return mixture - served * log(expected_share) - withheld * log(1.0 - expected_share)


def _compute_log_beta(first: float, second: float) -> float:
    return lgamma(first) + lgamma(second) - lgamma(first + second)
