"""Learn the trajectories of a batch one after the other, each exactly once, also when batches run twice.

Only the outcome of each trajectory is stored: Learn returns the committed result of its `request_id` (docs/adr/004), so
a batch that runs again, or twice at once, learns nothing twice.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import zip_longest
from typing import ParamSpec, TypeVar

from chassis.calls import Call, create_id, current_call
from chassis.errors import Aborted, HanseiError, ResourceExhausted, Unavailable
from chassis.idempotency import normalize_request_id
from chassis.logging import get_logger
from chassis.retry import RetryPolicy
from gateway.bulk.domain.attempts import (
    AttemptResult,
    Failure,
    Outage,
    PendingTrajectory,
    TrajectoryCommit,
    classify_outcome,
)
from gateway.bulk.domain.batches import Batch, learn_request_id
from gateway.bulk.usecases.ports import LearnChain, ProgressStore
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import gateway_service_pb2 as gateway

log = get_logger("hansei.bulk")

P = ParamSpec("P")
R = TypeVar("R")

TRANSIENT_CODES = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED"})
"""Statuses after which another attempt may succeed."""


class Stopping(Exception):
    """The process is stopping; the next one continues unfinished work."""


class BatchLearner:
    """Learns batches until it is stopped."""

    def __init__(
        self,
        chain: LearnChain,
        store: ProgressStore,
        policy: RetryPolicy,
        jitter: Callable[[], float] = random.random,
        *,
        outage_seconds: float = 0.0,
        record_attempt: Callable[[AttemptResult, float], None] = lambda result, seconds: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`record_attempt` gets the result of each attempt and the seconds it took.

        Failures because of an unavailable service use up no attempt for `outage_seconds` after the first of them.
        """
        self._chain = chain
        self._store = store
        self._policy = policy
        self._jitter = jitter
        self._outage_seconds = outage_seconds
        self._record_attempt = record_attempt
        self._monotonic = monotonic
        self._stopping = asyncio.Event()
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self, batch: Batch) -> None:
        """Learn the waiting trajectories of a batch. Raises CancelledError when stopped: the batch is then not done."""
        try:
            positions = await self._retry(self._store.start_batch, batch)
            started: PendingTrajectory | None = None
            for position, following in zip_longest(positions, positions[1:]):
                started = await self._learn_trajectory(batch.key, position, started, following)
        except Stopping:
            raise asyncio.CancelledError from None

    async def stop(self) -> None:
        """Start nothing more, and wait for the attempts in progress."""
        self._stopping.set()
        await self._idle.wait()

    async def _learn_trajectory(
        self, key: str, position: int, started: PendingTrajectory | None, following: int | None
    ) -> PendingTrajectory | None:
        """Try a trajectory until it is learned, given up, or does not wait any more.

        `started` is the trajectory if it was started before. Return the `following` one if it was started, which takes
        no transaction of its own.
        """
        outage = Outage()
        while True:
            pending = started or await self._retry(self._store.start_trajectory, key, position)
            started = None
            if pending is None:
                return None
            attempt, started_at = pending.attempts + 1, self._monotonic()
            outcome = await self._attempt_learn(_learn_request(pending, position))
            is_tolerated = outage.tolerates(outcome, started_at, self._outage_seconds)
            result = classify_outcome(attempt, None if is_tolerated else self._policy.attempts, outcome)
            self._record_attempt(result, self._monotonic() - started_at)
            if isinstance(outcome, TrajectoryCommit):
                return await self._retry(self._store.save_learned, key, position, outcome, following)
            if result is AttemptResult.DEAD:
                await self._retry(self._store.save_dead_letter, key, position, outcome)
                return None
            await self._retry(self._store.save_failure, key, position, outcome, attempts=0 if is_tolerated else 1)
            failures = outage.failures if is_tolerated else attempt
            await self._pause(self._policy.pause(failures, outcome.retry_after, self._jitter))

    async def _attempt_learn(self, request: gateway.LearnRequest) -> TrajectoryCommit | Failure:
        """Make one attempt. An attempt in progress is finished, also when the learner is stopped."""
        if self._stopping.is_set():
            raise Stopping
        self._busy += 1
        self._idle.clear()
        try:
            current_call.set(Call("bulk", create_id(), request.request_id))
            return summarize_response(await self._chain.learn(request))
        except HanseiError as error:
            return Failure.from_error(error, is_transient=error.code in TRANSIENT_CODES)
        except Exception:
            log.exception("learning a trajectory of a job failed unexpectedly")
            return Failure("INTERNAL", "INTERNAL", "unexpected error; see the log of the gateway", is_transient=False)
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.set()

    async def _retry(self, work: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of the store; wait while its database is unavailable or full."""
        result, _ = await replace(self._policy, attempts=None).run(
            lambda: work(*args, **kwargs),
            lambda error: isinstance(error, Unavailable | Aborted | ResourceExhausted),
            before_pause=lambda attempt, pause, error: log.warning(
                "database of bulk learning is unavailable; retrying", attempt=attempt, error=str(error)
            ),
            sleep=self._pause,
            rng=self._jitter,
        )
        return result

    async def _pause(self, seconds: float) -> None:
        """Wait. Raises Stopping when the learner is stopped meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
        raise Stopping


def _learn_request(pending: PendingTrajectory, position: int) -> gateway.LearnRequest:
    item = bulk.QueuedTrajectory.FromString(pending.payload)
    return gateway.LearnRequest(
        request_id=normalize_request_id(item.request_id) or learn_request_id(pending.job_id, position),
        dataset=pending.dataset,
        trajectory=item.trajectory,
        ground_truth=item.ground_truth,
        test_report=item.test_report,
        siblings=item.siblings,
        max_iterations=pending.max_iterations,
    )


def summarize_response(response: gateway.LearnResponse) -> TrajectoryCommit | Failure:
    """Return the outcome of a Learn response; without a saved curation it is a transient failure (G-43, G-45)."""
    if not response.HasField("curation"):
        message = "the reflection failed; nothing was learned"
        return Failure("ABORTED", "REFLECTION_FAILED", message, is_transient=True)
    curation = response.curation
    if not curation.saved:
        return Failure("ABORTED", "NOT_SAVED", curation.error or "the curation was not saved", is_transient=True)
    edits = sum(operation.applied for operation in curation.operations)
    votes = sum(vote.applied for vote in curation.votes)
    return TrajectoryCommit(edits, votes, curation.revision, changed=bool(edits or votes or curation.pending))
