"""Learn traces that are complete: read each by the readers of the reflector, and submit its trajectory as a job.

The id of a job follows from its trace, so a trace that is submitted twice, after a crash or by two replicas, is learned
once. An evaluation that arrives later is read together with its trace, and reported for the servings of the trajectory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime

from chassis.calls import Call, create_id, current_call
from chassis.errors import HanseiError, InvalidArgument, RequestIdReused
from chassis.logging import get_logger
from gateway.otlp.domain.trace import StoredTrace, TraceState
from gateway.otlp.usecases.otlp_json import build_document
from gateway.otlp.usecases.ports import JobOwners, JobSubmission, OutcomeReporter, TraceStore, TrajectoryReader
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.gateway.v1 import bulk_service_pb2 as bulk
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.reflector.v1.trajectory_pb2 import TRAJECTORY_STATUS_SUCCESS

MAX_DOCUMENT_BYTES = 15_000_000
"""The largest file that the reflector reads. Short spans take several times as many bytes in JSON as in protobuf."""
RETRY_SECONDS = 15.0
SWEEP_SECONDS = 30.0
"""The longest time between two looks for traces that are due."""
FINAL_CODES = frozenset({"INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"})
"""Statuses after which another attempt cannot succeed."""

log = get_logger("hansei.otlp")


class TraceLearning:
    """Learns the traces of one store for as long as the process lives."""

    def __init__(
        self,
        store: TraceStore,
        reader: TrajectoryReader,
        submit: JobSubmission,
        outcomes: OutcomeReporter,
        add_owner: JobOwners,
        now: Callable[[], datetime],
        *,
        count: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        """`count` gets the outcome of each trace."""
        self._store = store
        self._reader = reader
        self._submit = submit
        self._outcomes = outcomes
        self._add_owner = add_owner
        self._now = now
        self._count = count
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Look for the next trace that is due: parts have arrived."""
        self._changed.set()

    async def run(self) -> None:
        """Learn for as long as the process lives."""
        while True:
            self._changed.clear()
            seconds = RETRY_SECONDS
            try:
                while await self.learn_next():
                    pass
                await self._store.delete_expired()
                due = await self._store.find_next_due()
                seconds = SWEEP_SECONDS if due is None else (due - self._now()).total_seconds()
            except HanseiError as error:
                log.warning("learning of traces failed; trying again later", error=str(error))
            except Exception:
                log.exception("learning of traces failed unexpectedly; trying again later")
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(seconds, 0.05), SWEEP_SECONDS)):
                    await self._changed.wait()

    async def learn_next(self) -> bool:
        """Learn the trace that has waited longest, or report its outcome; return False if none is due.

        Raises the errors of the store.
        """
        trace = await self._store.claim_due()
        if trace is None:
            return False
        current_call.set(Call("otlp", create_id(), trace.key.job_id))
        try:
            state = await self._process(trace)
        except HanseiError as error:
            log.warning(
                "trace cannot be learned yet; trying again later",
                trace=trace.key.trace_id,
                dataset=trace.key.dataset,
                error=str(error),
            )
            await self._store.postpone(trace, max(error.retry_after or 0.0, RETRY_SECONDS))
        else:
            await self._store.finish(trace, state)
        return True

    async def _process(self, trace: StoredTrace) -> TraceState:
        """Return the state of a trace after this attempt. Raises transient errors."""
        try:
            parsed = await self._read_trajectory(trace)
            if trace.state is TraceState.LEARNED:
                await self._report_outcome(parsed)
                self._count("evaluated")
            else:
                await self._learn(trace, parsed)
                self._count("learned")
        except HanseiError as error:
            if error.code not in FINAL_CODES:
                raise
            self._count("given up")
            log.info(
                "trace is refused", trace=trace.key.trace_id, dataset=trace.key.dataset, reason=error.message[:500]
            )
            return TraceState.GIVEN_UP
        return TraceState.LEARNED

    async def _read_trajectory(self, trace: StoredTrace) -> reflector.ParsedTrajectory:
        """Return the trajectory of a trace. Raises HanseiError."""
        content = await asyncio.to_thread(build_document, trace.parts)
        if len(content) > MAX_DOCUMENT_BYTES:
            raise InvalidArgument(f"the trace has {len(content)} bytes as OTLP JSON, more than {MAX_DOCUMENT_BYTES}")
        response = await self._reader.ParseTrajectories(
            reflector.ParseTrajectoriesRequest(
                content=content, format=reflector.TRAJECTORY_FORMAT_OTEL, dataset=trace.key.dataset
            )
        )
        return response.trajectories[0]

    async def _learn(self, trace: StoredTrace, parsed: reflector.ParsedTrajectory) -> None:
        async def messages() -> AsyncIterator[bulk.SubmitTrajectoriesRequest]:
            head = bulk.JobHead(request_id=trace.key.job_id, dataset=trace.key.dataset)
            yield bulk.SubmitTrajectoriesRequest(head=head)
            batch = bulk.SubmitTrajectoriesRequest()
            batch.batch.trajectories.add(
                trajectory=parsed.trajectory, ground_truth=parsed.ground_truth, test_report=parsed.test_report
            )
            yield batch

        if trace.tenant:
            await self._add_owner(trace.key.job_id, trace.tenant)
        # Another replica, or this one before it died, may have submitted the trace without its last spans.
        with suppress(RequestIdReused):
            await self._submit(messages())

    async def _report_outcome(self, parsed: reflector.ParsedTrajectory) -> None:
        """Report an evaluation for the servings of a trajectory. The first report of a serving counts."""
        trajectory = parsed.trajectory
        if not trajectory.HasField("reward") and not parsed.test_report:
            return
        for serving_id in trajectory.serving_ids:
            request = evidence.ReportOutcomeRequest(dataset=trajectory.dataset, serving_id=serving_id)
            if trajectory.HasField("reward"):
                request.reward = min(1.0, max(0.0, trajectory.reward))
            else:
                request.succeeded = trajectory.status == TRAJECTORY_STATUS_SUCCESS
            await self._outcomes.ReportOutcome(request)
