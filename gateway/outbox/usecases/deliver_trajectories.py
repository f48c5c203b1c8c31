"""Store learned trajectories on disk, and deliver them to the archive as soon as it is available.

The archive stores a trajectory once, so a request may be delivered twice, after a crash or by two replicas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TypeGuard

from chassis.calls import Call, create_id, current_call
from chassis.errors import HanseiError
from chassis.logging import get_logger
from chassis.retry import RetryPolicy
from gateway.outbox.domain.entry import FINAL_CODES, MAX_FAULTS, OutboxEntry
from gateway.outbox.usecases.ports import ArchivePort, EntryStore
from hansei.evidence.v1 import archive_service_pb2 as archive_pb

BATCH = 32
DELIVERIES_AT_ONCE = 8
"""Calls of the archive at once, which commits them together."""
GATHER_SECONDS = 0.2
"""The longest pause after a delivery: trajectories that are added in it are read, delivered and deleted together.

It is shorter after few trajectories, so that whoever learns one at a time finds it in the archive.
"""
FULL_GATHER = 10
"""Trajectories of one delivery, from which on the pause after it is the longest."""
SWEEP_SECONDS = 15.0
"""Seconds between two looks for trajectories that other replicas have left."""
DRAIN_SECONDS = 3.0
"""Time to deliver the waiting entries when the process ends."""
DELIVERY = RetryPolicy(attempts=None, first_pause=0.2, longest_pause=15.0)

log = get_logger("hansei.outbox")


class DeliveryResult(Enum):
    """The outcome of a learned trajectory on its way to the archive."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    """The archive refused it, or it is larger than a message may be; another attempt cannot succeed."""
    NOT_STORED = "not stored"
    """The outbox is full, or its database is unavailable."""


@dataclass(slots=True)
class _Postponement:
    """Attempts that ended with INTERNAL, those of them that count against the trajectory, and the next attempt."""

    attempts: int = 0
    faults: int = 0
    due: float = 0.0


class TrajectoryOutbox:
    """The outbox of one gateway."""

    def __init__(
        self,
        store: EntryStore,
        archive: ArchivePort,
        max_bytes: int,
        *,
        max_message_bytes: int,
        count: Callable[[DeliveryResult], None] = lambda result: None,
        policy: RetryPolicy = DELIVERY,
        sweep_seconds: float = SWEEP_SECONDS,
        gather_seconds: float = GATHER_SECONDS,
    ) -> None:
        self._store = store
        self._archive = archive
        self._max_bytes = max_bytes
        self._max_message_bytes = max_message_bytes
        self._count = count
        self._policy = policy
        self._sweep_seconds = sweep_seconds
        self._gather_seconds = gather_seconds
        self._waiting_bytes = 0
        self._postponed: dict[int, _Postponement] = {}
        self._added = asyncio.Event()
        self._delivering = asyncio.Lock()

    async def count_waiting_bytes(self) -> None:
        """Count the bytes of the trajectories that wait, before the first call of `add`. Raises StoreUnavailable."""
        self._waiting_bytes = await self._store.sum_bytes()

    async def add(self, request: archive_pb.StoreTrajectoryRequest) -> None:
        """Store a trajectory for the archive. Raise nothing: a failure is logged and counted."""
        payload = request.SerializeToString()
        if len(payload) > self._max_message_bytes:
            event = "a learned trajectory is larger than a message may be; it is not archived"
            sizes = {"bytes": len(payload), "max_message_bytes": self._max_message_bytes}
            self._give_up(request, DeliveryResult.REFUSED, event, **sizes)
            return
        if self._waiting_bytes + len(payload) > self._max_bytes:
            event = "outbox is full; a learned trajectory is not archived"
            self._give_up(request, DeliveryResult.NOT_STORED, event, max_bytes=self._max_bytes)
            return
        self._waiting_bytes += len(payload)
        try:
            await self._store.add(payload)
        except HanseiError as error:
            self._waiting_bytes -= len(payload)
            event = "outbox is unavailable; a learned trajectory is not archived"
            self._give_up(request, DeliveryResult.NOT_STORED, event, error=str(error))
            return
        self._added.set()

    async def run(self) -> None:
        """Deliver for as long as the process lives."""
        while True:
            self._added.clear()
            delivered, _ = await self._policy.run(
                self._deliver_batch, lambda error: isinstance(error, Exception), before_pause=_log_pause
            )
            if delivered < BATCH:
                await asyncio.sleep(self._gather_seconds * min(1.0, delivered / FULL_GATHER))
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._find_pause()):
                        await self._added.wait()

    async def drain(self) -> None:
        """Deliver waiting entries while the archive responds at once; the next process delivers the others."""
        with suppress(HanseiError, TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while await self._deliver_batch():
                    pass

    async def _deliver_batch(self) -> int:
        """Deliver the oldest trajectories; return how many there were. Raises transient errors."""
        async with self._delivering:
            return await self._deliver_oldest()

    async def _deliver_oldest(self) -> int:
        entries = await self._list_due()
        finished: list[OutboxEntry] = []
        failed: list[tuple[OutboxEntry, HanseiError]] = []
        try:
            for start in range(0, len(entries), DELIVERIES_AT_ONCE):
                await self._deliver_together(entries[start : start + DELIVERIES_AT_ONCE], finished, failed)
        finally:
            # While the archive stores nothing at all, its faults say nothing about a trajectory.
            is_counted = bool(finished) or len(entries) == 1
            finished += [entry for entry, error in failed if self._postpone(entry, error, is_counted)]
            if finished:
                await self._store.delete([entry.number for entry in finished])
                self._waiting_bytes = max(0, self._waiting_bytes - sum(len(entry.payload) for entry in finished))
                for entry in finished:
                    self._postponed.pop(entry.number, None)
        return len(entries)

    async def _list_due(self) -> list[OutboxEntry]:
        """Return the oldest entries without those whose next attempt comes later."""
        limit, now = BATCH + len(self._postponed), asyncio.get_running_loop().time()
        entries = await self._store.list_entries(limit)
        if len(entries) < limit:  # other replicas may have delivered some
            listed = {entry.number for entry in entries}
            self._postponed = {number: state for number, state in self._postponed.items() if number in listed}
        due = [entry for entry in entries if self._postponed.get(entry.number, _Postponement()).due <= now]
        return due[:BATCH]

    def _find_pause(self) -> float:
        """Return the seconds until the next attempt of a postponed entry, or the next sweep."""
        now = asyncio.get_running_loop().time()
        return min([self._sweep_seconds, *(max(0.0, state.due - now) for state in self._postponed.values())])

    async def _deliver_together(
        self,
        entries: Sequence[OutboxEntry],
        finished: list[OutboxEntry],
        failed: list[tuple[OutboxEntry, HanseiError]],
    ) -> None:
        """Deliver entries; append those that are finished, and those that failed. Raises the first transient error."""
        results = await asyncio.gather(*map(self._deliver, entries), return_exceptions=True)
        outcomes = list(zip(entries, results, strict=True))
        finished += [entry for entry, result in outcomes if result is None]
        failed += [(entry, result) for entry, result in outcomes if _is_fault(result)]
        for result in results:
            if result is not None and not _is_fault(result):
                raise result

    def _postpone(self, entry: OutboxEntry, error: HanseiError, is_counted: bool) -> bool:
        """Try an entry again later, without delaying others; return whether it is given up instead."""
        state = self._postponed.setdefault(entry.number, _Postponement())
        state.attempts += 1
        state.faults += is_counted
        request = archive_pb.StoreTrajectoryRequest.FromString(entry.payload)
        if state.faults >= MAX_FAULTS:
            self._refuse(request, error)
            return True
        state.due = asyncio.get_running_loop().time() + self._policy.pause(state.attempts, error.retry_after)
        log.warning(
            "archiving a learned trajectory failed; trying again later",
            trajectory=request.trajectory.id,
            dataset=request.dataset,
            attempt=state.attempts,
            error=str(error),
        )
        return False

    async def _deliver(self, entry: OutboxEntry) -> None:
        request = archive_pb.StoreTrajectoryRequest.FromString(entry.payload)
        current_call.set(Call("outbox", create_id(), ""))
        try:
            await self._archive.StoreTrajectory(request)
        except HanseiError as error:
            if error.code not in FINAL_CODES:
                raise
            self._refuse(request, error)
        else:
            self._count(DeliveryResult.DELIVERED)

    def _refuse(self, request: archive_pb.StoreTrajectoryRequest, error: HanseiError) -> None:
        self._give_up(request, DeliveryResult.REFUSED, "the archive refused a learned trajectory", error=str(error))

    def _give_up(
        self, request: archive_pb.StoreTrajectoryRequest, result: DeliveryResult, event: str, **facts: object
    ) -> None:
        """Count a trajectory that will not be archived, and log it."""
        self._count(result)
        log.warning(event, trajectory=request.trajectory.id, dataset=request.dataset, **facts)


def _is_fault(error: BaseException | None) -> TypeGuard[HanseiError]:
    """Return whether the archive failed at one trajectory; other transient errors concern all."""
    return isinstance(error, HanseiError) and error.code == "INTERNAL"


def _log_pause(attempt: int, pause: float, error: BaseException) -> None:
    if isinstance(error, HanseiError):
        log.warning("the archive is unavailable; learned trajectories wait", attempt=attempt, error=str(error))
    else:
        log.error("archiving failed unexpectedly; trying again later", attempt=attempt, exc_info=error)
