"""The ports of traces. Stores raise the errors of `libs.storage.errors`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import datetime
from typing import Protocol

from gateway.otlp.domain.trace import StoredTrace, StoreResult, TracePart, TraceState
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.gateway.v1 import bulk_service_pb2 as bulk
from hansei.reflector.v1 import reflector_service_pb2 as reflector


class TraceStore(Protocol):
    """Stores traces until they are learned, and for some time afterwards."""

    async def add_parts(self, tenant: str, parts: Sequence[TracePart]) -> list[StoreResult]:
        """Store parts, all of them or none. They are on disk when this returns. Raises TraceStoreFull."""

    async def find_datasets(self, tenant: str, trace_ids: Sequence[str]) -> dict[str, str]:
        """Return the datasets of the stored traces of a tenant, by trace id."""

    async def claim_due(self) -> StoredTrace | None:
        """Return the trace that has waited longest, for this replica alone for a minute; None if none is due."""

    async def finish(self, trace: StoredTrace, state: TraceState) -> None:
        """Set the state of a claimed trace; a part that arrived meanwhile makes it due again."""

    async def postpone(self, trace: StoredTrace, seconds: float) -> None:
        """Make a claimed trace due again later."""

    async def find_next_due(self) -> datetime | None:
        """Return the time at which the next trace is due; None if none waits."""

    async def delete_expired(self) -> int:
        """Delete traces whose retention is over; return how many."""


class TrajectoryReader(Protocol):
    """The readers of the reflector."""

    def ParseTrajectories(  # noqa: N802
        self, request: reflector.ParseTrajectoriesRequest, /
    ) -> Awaitable[reflector.ParseTrajectoriesResponse]:
        """Return the trajectories of a file."""


class OutcomeReporter(Protocol):
    """The evidence service."""

    def ReportOutcome(  # noqa: N802
        self, request: evidence.ReportOutcomeRequest, /
    ) -> Awaitable[evidence.ReportOutcomeResponse]:
        """Report the outcome of a serving."""


class JobSubmission(Protocol):
    """The jobs of the gateway."""

    async def __call__(self, requests: AsyncIterator[bulk.SubmitTrajectoriesRequest], /) -> object:
        """Accept a job once."""


class JobOwners(Protocol):
    """The tenants of jobs."""

    async def __call__(self, job_id: str, tenant: str, /) -> None:
        """Store the tenant of a job; an owned job keeps its owner."""


class Caller(Protocol):
    """The principal of the export in progress."""

    @property
    def tenant(self) -> str:
        """Return its tenant; empty for the operator."""

    def owns(self, name: str) -> bool:
        """Return whether it may write a dataset."""
