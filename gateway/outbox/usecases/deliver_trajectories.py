"""Store learned trajectories on disk, and deliver them to the archive as soon as it is available.

The archive stores a trajectory once, so a request may be delivered twice, after a crash or by two replicas.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum

from chassis.calls import Call, create_id, current_call
from chassis.errors import HanseiError
from chassis.logging import get_logger
from chassis.retry import RetryPolicy
from gateway.outbox.domain.entry import OutboxEntry, is_final
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
        self._faults: Counter[int] = Counter()
        self._added = asyncio.Event()
        self._delivering = asyncio.Lock()

    async def count_waiting_bytes(self) -> None:
        """Count the bytes of the trajectories that wait, before the first call of `add`. Raises StoreUnavailable."""
        self._waiting_bytes = await self._store.sum_bytes()

    async def add(self, request: archive_pb.StoreTrajectoryRequest) -> None:
        """Store a trajectory for the archive. Raise nothing: a failure is logged and counted."""
        payload = request.SerializeToString()
        if len(payload) > self._max_message_bytes:
            self._count(DeliveryResult.REFUSED)
            log.warning(
                "a learned trajectory is larger than a message may be; it is not archived",
                trajectory=request.trajectory.id,
                dataset=request.dataset,
                bytes=len(payload),
                max_message_bytes=self._max_message_bytes,
            )
            return
        try:
            if self._waiting_bytes + len(payload) > self._max_bytes:
                self._count(DeliveryResult.NOT_STORED)
                log.warning(
                    "outbox is full; a learned trajectory is not archived",
                    trajectory=request.trajectory.id,
                    dataset=request.dataset,
                    max_bytes=self._max_bytes,
                )
                return
            await self._store.add(payload)
        except HanseiError as error:
            self._count(DeliveryResult.NOT_STORED)
            log.warning(
                "outbox is unavailable; a learned trajectory is not archived",
                trajectory=request.trajectory.id,
                dataset=request.dataset,
                error=str(error),
            )
            return
        self._waiting_bytes += len(payload)
        self._added.set()

    async def run(self) -> None:
        """Deliver for as long as the process lives."""
        while True:
            self._added.clear()
            delivered, _ = await self._policy.run(
                self._deliver_batch, lambda error: isinstance(error, HanseiError), before_pause=_log_pause
            )
            if delivered < BATCH:
                await asyncio.sleep(self._gather_seconds * min(1.0, delivered / FULL_GATHER))
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._sweep_seconds):
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
        entries = await self._store.list_entries(BATCH)
        finished: list[OutboxEntry] = []
        try:
            for start in range(0, len(entries), DELIVERIES_AT_ONCE):
                await self._deliver_together(entries[start : start + DELIVERIES_AT_ONCE], finished)
        finally:
            if finished:
                await self._store.delete([entry.number for entry in finished])
                self._waiting_bytes = max(0, self._waiting_bytes - sum(len(entry.payload) for entry in finished))
        return len(entries)

    async def _deliver_together(self, entries: Sequence[OutboxEntry], finished: list[OutboxEntry]) -> None:
        """Deliver entries, and append those that are finished. Raises the first transient error."""
        results = await asyncio.gather(*map(self._deliver, entries), return_exceptions=True)
        finished += [entry for entry, result in zip(entries, results, strict=True) if result is None]
        for result in results:
            if result is not None:
                raise result

    async def _deliver(self, entry: OutboxEntry) -> None:
        request = archive_pb.StoreTrajectoryRequest.FromString(entry.payload)
        current_call.set(Call("outbox", create_id(), ""))
        try:
            await self._archive.StoreTrajectory(request)
        except HanseiError as error:
            self._faults[entry.number] += error.code == "INTERNAL"
            if not is_final(error.code, self._faults[entry.number]):
                raise
            self._count(DeliveryResult.REFUSED)
            log.warning(
                "the archive refused a learned trajectory",
                trajectory=request.trajectory.id,
                dataset=request.dataset,
                error=str(error),
            )
        else:
            self._count(DeliveryResult.DELIVERED)
        self._faults.pop(entry.number, None)


def _log_pause(attempt: int, pause: float, error: BaseException) -> None:
    log.warning("the archive is unavailable; learned trajectories wait", attempt=attempt, error=str(error))
