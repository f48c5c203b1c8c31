"""Learns the trajectories of a batch one after the other, each exactly once, whoever else does or did the same.

Nothing of a batch needs to be remembered but what came of each trajectory: Learn returns what its `request_id` has
committed (docs/adr/004), so a batch that is run again, or twice at once, learns nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

from chassis.calls import Call, current_call
from chassis.errors import HanseiError, Unavailable
from gateway.bulk.progress import Progress
from gateway.bulk.records import Batch, Ending, Failure, Learned, Waiting
from hansei.gateway.v1 import gateway_service_pb2 as gateway

log = logging.getLogger("hansei.bulk")

P = ParamSpec("P")
R = TypeVar("R")

PASSING = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED"})
"""Statuses after which another attempt may fare better."""


class Learns(Protocol):
    """What learns one trajectory."""

    async def learn(self, request: gateway.LearnRequest) -> gateway.LearnResponse:
        """The outcome; a repeated `request_id` returns the first one."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a trajectory is tried, and the pauses between: `base` seconds, doubled each time, at most `longest`."""

    attempts: int
    base: float
    longest: float

    def ending(self, attempt: int, outcome: Learned | Failure) -> Ending:
        """What an attempt, from 1, ended in."""
        if isinstance(outcome, Learned):
            return Ending.LEARNED
        return Ending.FAILED if outcome.passing and attempt < self.attempts else Ending.DEAD

    def pause(self, attempt: int, share: float) -> float:
        """Seconds after an attempt, from 1; `share`, 0 to 1, spreads those who wait."""
        return min(self.longest, self.base * 2.0 ** min(attempt - 1, 60)) * (0.5 + 0.5 * share)


class Stopping(Exception):
    """The process is about to end: what is not done is left for the next one."""


class BatchLearner:
    """Learns batches until it is stopped."""

    def __init__(
        self,
        learning: Learns,
        progress: Progress,
        patience: Patience,
        share: Callable[[], float] = random.random,
        *,
        attempted: Callable[[Ending, float], None] = lambda ending, seconds: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`attempted` is told what every attempt ended in, and after how many seconds."""
        self._learning = learning
        self._progress = progress
        self._patience = patience
        self._share = share
        self._told = attempted
        self._monotonic = monotonic
        self._stopping = asyncio.Event()
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self, batch: Batch) -> None:
        """Learn what of a batch waits. Cancelled when stopped in the middle: to the queue it is then not done."""
        try:
            for position in await self._surely(self._progress.started, batch):
                await self._settle(batch.key, position)
        except Stopping:
            raise asyncio.CancelledError from None

    async def stop(self) -> None:
        """Begin nothing more, and wait for what is being learned."""
        self._stopping.set()
        await self._idle.wait()

    async def _settle(self, key: str, position: int) -> None:
        """Try a trajectory until it is learned, given up, or waits no more."""
        while True:
            waiting = await self._surely(self._progress.waiting, key, position)
            if waiting is None:
                return
            attempt, began = waiting.attempts + 1, self._monotonic()
            outcome = await self._attempted(waiting)
            ending = self._patience.ending(attempt, outcome)
            self._told(ending, self._monotonic() - began)
            if isinstance(outcome, Learned):
                await self._surely(self._progress.learned, key, position, outcome)
            elif ending is Ending.DEAD:
                await self._surely(self._progress.died, key, position, outcome)
            else:
                await self._surely(self._progress.failed, key, position, outcome)
                pause = self._patience.pause(attempt, self._share())
                await self._pause(max(pause, min(outcome.retry_after or 0.0, self._patience.longest)))
                continue
            return

    async def _attempted(self, waiting: Waiting) -> Learned | Failure:
        """One attempt. What was begun is finished, also when stopped meanwhile."""
        if self._stopping.is_set():
            raise Stopping
        self._begin()
        try:
            current_call.set(Call("bulk", waiting.request.request_id))
            return outcome_of(await self._learning.learn(waiting.request))
        except HanseiError as error:
            return Failure.of(error, passing=error.code in PASSING)
        except Exception:
            log.exception("a trajectory of a job could not be learned")
            return Failure("INTERNAL", "INTERNAL", "an unexpected error; the gateway's log has it", passing=False)
        finally:
            self._end()

    async def _surely(self, work: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """What the database of the jobs answers, however long it is away."""
        attempt = 0
        while True:
            try:
                return await work(*args, **kwargs)
            except Unavailable as error:
                attempt += 1
                log.warning("bulk learning waits for its database: %s", error)
                await self._pause(self._patience.pause(attempt, self._share()))

    async def _pause(self, seconds: float) -> None:
        """Wait; raises Stopping when stopped meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return  # The time is up, and nobody stopped us.
        raise Stopping

    def _begin(self) -> None:
        self._busy += 1
        self._idle.clear()

    def _end(self) -> None:
        self._busy -= 1
        if not self._busy:
            self._idle.set()


def outcome_of(response: gateway.LearnResponse) -> Learned | Failure:
    """What Learn did. That nothing was committed is a failure: no job counts what no playbook holds (G-43, G-45)."""
    if not response.HasField("curation"):
        return Failure("ABORTED", "REFLECTION_FAILED", "the reflection failed; nothing was learned", passing=True)
    curation = response.curation
    if not curation.saved:
        return Failure("ABORTED", "NOT_SAVED", curation.error or "the curation was not saved", passing=True)
    edits = sum(operation.applied for operation in curation.operations)
    votes = sum(vote.applied for vote in curation.votes)
    return Learned(edits, votes, curation.revision, changed=bool(edits or votes or curation.pending))
