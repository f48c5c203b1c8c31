"""The ports of the checks of tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from chassis.targets.guard import CallGuard, GuardIndex
from libs.guards.backtest import Backtest
from libs.storage.idempotency import IdempotencyKey
from services.evidence.domain.guard_modes import AllowedModes
from services.evidence.domain.guard_sessions import DecidedMatch, SessionEvent
from services.evidence.domain.stored_backtest import StoredBacktest


@dataclass(frozen=True, slots=True)
class DatasetGuards:
    """The guards of a dataset at a revision of its playbook."""

    revision: int
    guards: tuple[CallGuard, ...]
    index: GuardIndex
    pinned: frozenset[str] = frozenset()
    """The bullets whose mode a person set."""


@dataclass(frozen=True, slots=True)
class FiringCounts:
    """The checked calls that a guard matched, and those of them whose advice was withheld."""

    firings: int = 0
    withheld: int = 0


@dataclass(frozen=True, slots=True)
class OutdatedBacktest:
    """A stored backtest, with the number of the last archived trajectory that it counts."""

    counts: StoredBacktest
    archived_number: int


class GuardSource(Protocol):
    """The source of the guards of a dataset."""

    async def find(self, dataset: str) -> DatasetGuards:
        """Return the guards. Raises HanseiError while they cannot be read."""


class GuardStore(Protocol):
    """The store of sessions and firings."""

    @property
    def is_exclusive(self) -> bool:
        """Return whether no other process writes to the store, so that what was read need not be read again."""

    async def load_events(self, dataset: str, session_id: str, after: int) -> Sequence[SessionEvent]:
        """Return the events of a session after the first `after`."""

    async def append_events(
        self, key: IdempotencyKey, dataset: str, session_id: str, events: Sequence[SessionEvent]
    ) -> int:
        """Add events to a session once for each key; return their number in all. Raises RequestIdReused."""

    async def get_assignment_key(self, dataset: str) -> bytes:
        """Return the key of the random assignments of a dataset."""

    async def store_firings(
        self, dataset: str, session_id: str, step: int, call_key: str, matches: Sequence[DecidedMatch]
    ) -> None:
        """Store the firings of the check of one call; a repeated check adds none."""

    async def count_firings(self, dataset: str) -> Mapping[str, FiringCounts]:
        """Return the counts of firings by bullet."""

    async def store_backtest(self, dataset: str, target: str, backtest: Backtest, archived_number: int) -> None:
        """Store the counts of the last backtest of a target, and the last archived trajectory before it."""

    async def find_archived_number(self, dataset: str) -> int:
        """Return the number of the last archived trajectory of a dataset, 0 without one."""

    async def list_grown_archives(self) -> Sequence[tuple[str, int]]:
        """Return the datasets with trajectories that a stored backtest does not count, each with the last number."""

    async def find_outdated_backtests(
        self, dataset: str, targets: Sequence[str], newest: int
    ) -> Mapping[str, OutdatedBacktest]:
        """Return the stored backtests of targets that do not count all trajectories up to a number."""

    async def add_to_backtests(
        self, dataset: str, outdated: Mapping[str, OutdatedBacktest], added: Mapping[str, Backtest], newest: int
    ) -> Mapping[str, StoredBacktest]:
        """Add later trajectories to backtests that nobody changed meanwhile, and return these.

        Backtests of other targets, which guard nothing, count nothing more.
        """

    async def find_allowed_modes(self, dataset: str, guards: Sequence[CallGuard]) -> Mapping[str, AllowedModes]:
        """Return what stored backtests and measurements allow, by bullet; nothing for a guard with neither.

        Guards with the same target share its backtest, not their measurements.
        """
