"""Counts of archived trajectories by day and agent, with and without bullets, and the shares that follow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime, timedelta

from services.evidence.domain.archive import StoredUsage, TrajectorySummary

DEFAULT_DAYS = 90
MAX_AGENTS = 50
MAX_AGENTS_PER_TRAJECTORY = 8
"""Agents of one trajectory that are counted by name; trajectories come from outside and may name any number."""
ALL_AGENTS = ""
"""The name under which a trajectory is counted once, whatever its agents are."""
_EPOCH = date(1970, 1, 1)
_Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""
_SUCCESS, _FAILURE = 1, 2
_NANO = 10**9


@dataclass(frozen=True, slots=True)
class TrajectoryCounts:
    """Numbers of trajectories, and the sums of their steps, tokens and cost.

    The cost is a whole number of billionths of a dollar, so that a deleted trajectory leaves no rounding error.
    """

    trajectories: int = 0
    succeeded: int = 0
    failed: int = 0
    with_errors: int = 0
    with_repeated_errors: int = 0
    steps: int = 0
    with_tokens: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    with_cost: int = 0
    cost_nano_usd: int = 0

    @property
    def cost_usd(self) -> float | None:
        """Return the cost in US dollars; None if that of no trajectory is known."""
        return self.cost_nano_usd / _NANO if self.with_cost else None

    def __add__(self, other: TrajectoryCounts) -> TrajectoryCounts:
        """Return the sums."""
        return TrajectoryCounts(*(own + added for own, added in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class DayKey:
    """The group in which a trajectory is counted; `day` is the number of days since 1970-01-01 UTC."""

    day: int
    has_bullets: bool
    agent: str

    @property
    def date(self) -> date:
        """Return the day."""
        return _EPOCH + timedelta(days=self.day)


@dataclass(frozen=True, slots=True)
class ShareEstimate:
    """A share with the 95 % interval of Wilson (1927); 0 `trajectories` means that there is none."""

    share: float = 0.0
    lower: float = 0.0
    upper: float = 0.0
    trajectories: int = 0


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts by day, by agent, and in total; each pair is with and without bullets."""

    days: tuple[tuple[date, TrajectoryCounts, TrajectoryCounts], ...]
    agents: tuple[tuple[str, TrajectoryCounts, TrajectoryCounts], ...]
    with_bullets: TrajectoryCounts
    without_bullets: TrajectoryCounts


def list_groups(created_at: datetime, summary: TrajectorySummary) -> list[DayKey]:
    """Return the groups in which a trajectory is counted: once in total, and once for each of its agents."""
    day = (created_at.astimezone(UTC).date() - _EPOCH).days
    agents = [agent for agent in dict.fromkeys(summary.agents) if agent][:MAX_AGENTS_PER_TRAJECTORY]
    return [DayKey(day, bool(summary.served), agent) for agent in (ALL_AGENTS, *agents)]


def count_trajectory(summary: TrajectorySummary, *, repeats_error: bool) -> TrajectoryCounts:
    """Return the counts of one trajectory."""
    usage = summary.usage or StoredUsage()
    return TrajectoryCounts(
        trajectories=1,
        succeeded=int(summary.status == _SUCCESS),
        failed=int(summary.status == _FAILURE),
        with_errors=int(bool(summary.errors)),
        with_repeated_errors=int(repeats_error),
        steps=summary.steps,
        with_tokens=int(usage.input_tokens is not None or usage.output_tokens is not None),
        input_tokens=usage.input_tokens or 0,
        cached_input_tokens=usage.cached_input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        with_cost=int(usage.cost_usd is not None),
        cost_nano_usd=round((usage.cost_usd or 0) * _NANO),
    )


def estimate_share(part: int, total: int) -> ShareEstimate:
    """Return a share with its interval."""
    if not total:
        return ShareEstimate()
    share = part / total
    spread = _Z * _Z / total
    centre = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    return ShareEstimate(share, max(0.0, centre - half), min(1.0, centre + half), total)


def summarize_groups(groups: Sequence[tuple[DayKey, TrajectoryCounts]]) -> Overview:
    """Return the overview of all groups."""
    whole = [(key, counts) for key, counts in groups if key.agent == ALL_AGENTS]
    days = sorted({key.date for key, _ in whole})
    agents = {key.agent for key, _ in groups} - {ALL_AGENTS}
    by_day = [(day, *_split((key, counts) for key, counts in whole if key.date == day)) for day in days]
    by_agent = [(agent, *_split((key, counts) for key, counts in groups if key.agent == agent)) for agent in agents]
    by_agent.sort(key=lambda entry: (-(entry[1].trajectories + entry[2].trajectories), entry[0]))
    return Overview(tuple(by_day), tuple(by_agent[:MAX_AGENTS]), *_split(whole))


def _split(groups: Iterable[tuple[DayKey, TrajectoryCounts]]) -> tuple[TrajectoryCounts, TrajectoryCounts]:
    """Return the sums with bullets and without."""
    sums = {True: TrajectoryCounts(), False: TrajectoryCounts()}
    for key, counts in groups:
        sums[key.has_bullets] += counts
    return sums[True], sums[False]
