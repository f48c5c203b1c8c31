"""The mode in effect of a guard: the strictest that its backtest allows, unless a person pinned one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from chassis.targets.guard import CallGuard, GuardMode

MAX_BOUND_OF_ADVISE = 0.02
"""The upper bound of the false alarms up to which a guard may advise."""
MAX_BOUND_OF_ASK = 0.01
"""The upper bound of the false alarms up to which a guard may stop a call until a person decides."""


def find_highest_mode(false_alarm_bound: float | None) -> GuardMode:
    """Return the highest mode that a backtest allows; DENY needs a person's word, which is a pin."""
    if false_alarm_bound is None or false_alarm_bound > MAX_BOUND_OF_ADVISE:
        return GuardMode.SHADOW
    return GuardMode.ADVISE if false_alarm_bound > MAX_BOUND_OF_ASK else GuardMode.ASK


def needs_backtest(guard: CallGuard, pinned: frozenset[str]) -> bool:
    """Return whether the mode of a guard is above SHADOW and no person pinned it."""
    return guard.mode > GuardMode.SHADOW and guard.bullet_id not in pinned


def limit_mode(guard: CallGuard, pinned: frozenset[str], bounds: Mapping[str, float]) -> CallGuard:
    """Return a guard with the mode in effect. `bounds` are those of the false alarms, by target."""
    if not needs_backtest(guard, pinned):
        return guard
    highest = find_highest_mode(bounds.get(guard.target.source))
    return guard if guard.mode <= highest else replace(guard, mode=highest)
