"""Tests whether differences between passed and failed trajectories are more than chance."""

from __future__ import annotations

from collections.abc import Mapping
from math import comb

FALSE_DISCOVERY_RATE = 0.05


def calculate_chance(bad_failed: int, good_failed: int, good_passed: int) -> float:
    """Return the probability that all `bad_failed` trajectories fail by chance (Fisher's exact test).

    No bad trajectory passed.
    """
    return comb(bad_failed + good_failed, bad_failed) / comb(bad_failed + good_failed + good_passed, bad_failed)


def select_significant(chances: Mapping[str, float], tried: int) -> list[str]:
    """Return the names that are significant at the false discovery rate among `tried` ones, most significant first."""
    ranked = sorted(chances, key=lambda name: (chances[name], name))
    passing = [rank for rank, name in enumerate(ranked, 1) if chances[name] <= FALSE_DISCOVERY_RATE * rank / tried]
    return ranked[: max(passing, default=0)]
