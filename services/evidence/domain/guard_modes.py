"""The mode in effect of a guard: what its backtest and its measurements allow, unless a person pinned a mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from chassis.targets.guard import CallGuard, GuardMode

MAX_BOUND_OF_ADVISE = 0.02
"""The upper bound of the false alarms up to which a guard may advise."""
MAX_BOUND_OF_ASK = 0.01
"""The upper bound of the false alarms up to which a guard may stop a call until a person decides."""


def find_highest_mode(false_alarm_bound: float | None) -> GuardMode:
    """Return the highest mode that a backtest allows; DENY needs the pin of a person."""
    if false_alarm_bound is None or false_alarm_bound > MAX_BOUND_OF_ADVISE:
        return GuardMode.SHADOW
    return GuardMode.ADVISE if false_alarm_bound > MAX_BOUND_OF_ASK else GuardMode.ASK


def needs_backtest(guard: CallGuard, pinned: frozenset[str]) -> bool:
    """Return whether the mode of a guard is above SHADOW and no person pinned it."""
    return guard.mode > GuardMode.SHADOW and guard.bullet_id not in pinned


@dataclass(frozen=True, slots=True)
class AllowedModes:
    """The highest modes that a backtest and that the measurements of a guard allow; none above `cap`."""

    backtested: GuardMode = GuardMode.SHADOW
    earned: GuardMode = GuardMode.SHADOW
    cap: GuardMode = GuardMode.DENY

    @property
    def highest(self) -> GuardMode:
        """Return the highest mode that a guard may have without a pin."""
        return min(max(self.backtested, self.earned), self.cap)


def limit_mode(guard: CallGuard, pinned: frozenset[str], allowed: Mapping[str, AllowedModes]) -> CallGuard:
    """Return a guard with the mode in effect. `allowed` are the modes by bullet."""
    if not needs_backtest(guard, pinned):
        return guard
    highest = allowed.get(guard.bullet_id, AllowedModes()).highest
    return guard if guard.mode <= highest else replace(guard, mode=highest)
