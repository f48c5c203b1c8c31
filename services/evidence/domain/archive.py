"""Trajectories in the archive: summaries, marks to find them by, retention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum

MAX_MARK_CHARS = 500
"""Characters of a mark; more would not fit into an index of PostgreSQL."""
FUTURE_TOLERANCE = timedelta(minutes=5)
"""The difference of clocks up to which a time in the future is accepted."""


class MarkKind(IntEnum):
    """The kind of a fact by which a trajectory is found. The numbers are stored."""

    TOOL = 1
    ERROR = 2
    SERVED = 3
    CITED = 4
    LEARNED = 5
    AGENT = 6


@dataclass(frozen=True, slots=True)
class ToolErrorSignature:
    """An error of a tool without its variable parts, and the step with the result."""

    operation: str
    message: str
    step: int

    @property
    def text(self) -> str:
        """Return `operation: message`, equal for equal errors."""
        return f"{self.operation}: {self.message}"


@dataclass(frozen=True, slots=True)
class StoredUsage:
    """The tokens and the cost of the model calls of a trajectory; None is unknown."""

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class TrajectorySummary:
    """The facts of a trajectory that are read without its body. `status` is the number of the contract."""

    query: str
    status: int
    steps: int
    reward: float | None = None
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    errors: tuple[ToolErrorSignature, ...] = ()
    served: tuple[str, ...] = ()
    cited: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    servings: tuple[str, ...] = ()
    usage: StoredUsage | None = None

    def list_marks(self) -> Iterator[tuple[MarkKind, str]]:
        """Yield the marks by which the trajectory is found, each once."""
        values = {
            MarkKind.TOOL: self.tools,
            MarkKind.ERROR: [error.text for error in self.errors],
            MarkKind.SERVED: self.served,
            MarkKind.CITED: self.cited,
            MarkKind.LEARNED: self.learned,
            MarkKind.AGENT: self.agents,
        }
        for kind, texts in values.items():
            for text in dict.fromkeys(text[:MAX_MARK_CHARS] for text in texts):
                yield kind, text

    def add_facts(self, learned: tuple[str, ...], usage: StoredUsage | None) -> TrajectorySummary:
        """Return the summary with further bullets that were learned, and with `usage` if it has none."""
        bullet_ids = tuple(dict.fromkeys([*self.learned, *learned]))
        return replace(self, learned=bullet_ids, usage=self.usage or usage)


@dataclass(frozen=True, slots=True)
class TrajectoryKey:
    """The identity of a stored trajectory: two contents with one id are two trajectories."""

    dataset: str
    trajectory_id: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class ArchivedTrajectory:
    """A stored trajectory without its body; a tombstone has no summary."""

    number: int
    key: TrajectoryKey
    summary: TrajectorySummary | None
    size: int
    created_at: datetime
    learned_at: datetime
    stored_at: datetime
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """The time and the size up to which a dataset's trajectories are stored; 0 is the default of the service."""

    max_age_days: int = 0
    max_bytes: int = 0

    def fill(self, default: Retention) -> Retention:
        """Return the retention that applies."""
        return Retention(self.max_age_days or default.max_age_days, self.max_bytes or default.max_bytes)
