"""Callers that learn and search while something breaks, and the outcomes of their calls.

Each caller sends one run after the other and repeats a run, under its `request_id`, until it is acknowledged: that is
what the contract tells callers to do. The ledger then knows what must be in the playbook, and the playbook's log,
read back whole, says what is: `check_ledger`. With `sessions`, callers also work as agents do, with the evidence
service and its guards (`tests/resilience/sessions.py`).
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from chassis.channels import Peers
from chassis.errors import HanseiError
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.gateway.v1 import gateway_service_pb2_grpc
from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests.resilience.sessions import GuardedSessions, check_outcomes
from tests.support.bulk_jobs import build_trajectory, jobs_at

CALLERS = 4
CALL_SECONDS = 10.0
WAIT_SECONDS = 120.0
FIGURES = "HANSEI_FAULTS_JSON"
"""The variable with the file that a line about each fault is appended to."""
RETRYABLE = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED"})
"""Codes of errors after which a caller may try again: those that a call may end with while something is broken."""


@dataclass
class Ledger:
    """The outcomes of the calls: acknowledged trajectories, answered searches, refusals."""

    dataset: str
    acknowledged: list[str] = field(default_factory=list)
    answered: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    outcomes: dict[str, float] = field(default_factory=dict)
    """The outcome that counts, by serving."""
    refused_sessions: Counter[str] = field(default_factory=Counter)
    """Refusals of the evidence service."""

    def record_response(self, learned: gateway.LearnResponse | None) -> bool:
        """Return whether a response acknowledges the trajectory; one that does not must state the reason."""
        if learned is None:
            return False
        if not learned.HasField("curation"):
            self.refused["nothing learned: the reflection failed"] += 1
        elif not learned.curation.saved:
            assert learned.curation.error
            self.refused["saved: false, with the reason"] += 1
        return learned.curation.saved

    def refuse(self, error: HanseiError, refused: Counter[str] | None = None) -> None:
        """Count a refusal; each must have a code of `RETRYABLE` and a reason."""
        assert error.code in RETRYABLE, f"{error.code} {error.reason}: {error.message}"
        assert error.reason, error.message
        (self.refused if refused is None else refused)[f"{error.code} {error.reason}"] += 1


class Load:
    """Running callers. `progress` waits for them; at the end of the block each finishes its call."""

    def __init__(
        self, address: str, dataset: str, call_seconds: float = CALL_SECONDS, *, sessions: bool = False
    ) -> None:
        self._peers = Peers({"gateway": address})
        channel: Any = self._peers.get_channel("gateway")
        self._gateway: Any = gateway_service_pb2_grpc.GatewayServiceStub(channel)
        self._search: Any = search_service_pb2_grpc.SearchServiceStub(channel)
        self._playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
        self._seconds = call_seconds
        self._moved = asyncio.Condition()
        self._numbers = iter(range(10**9))
        self.ledger = Ledger(dataset)
        self.sessions = GuardedSessions(channel, dataset, self._repeat_session_call) if sessions else None
        self.enough = False

    async def go_on(self) -> None:
        """Learn and search until the load ends."""
        while not self.enough:
            await self.learn(next(self._numbers))
            await self.ask()
            if self.sessions is not None:
                self.ledger.outcomes.update(await self.sessions.run())

    async def learn(self, number: int) -> None:
        """Learn one trajectory; repeat the call until it is acknowledged."""
        dataset = self.ledger.dataset
        request = gateway.LearnRequest(
            request_id=str(uuid.uuid4()), dataset=dataset, trajectory=build_trajectory(dataset, number, lessons=8)
        )
        while not self.ledger.record_response(await self._call(self._gateway.Learn, request)):
            pass
        self.ledger.acknowledged.append(request.trajectory.id)
        async with self._moved:
            self._moved.notify_all()

    async def ask(self) -> None:
        """Search once, and count a refusal."""
        if await self._call(self._search.Search, self._question()) is not None:
            self.ledger.answered += 1

    async def assert_search_is_current(self, seconds: float) -> None:
        """Search at the current revision of the playbook; raise its error if search is late."""
        now = await self._playbooks.GetPlaybook(
            playbook_service_pb2.GetPlaybookRequest(dataset=self.ledger.dataset, allow_missing=True)
        )
        assert (await self._search.Search(self._question(now.playbook.revision), timeout=seconds)).results

    def _question(self, min_revision: int = 0) -> search_service_pb2.SearchRequest:
        query = search_pb2.SearchQuery(query_text="tool1 fails")
        return search_service_pb2.SearchRequest(
            dataset=self.ledger.dataset, query=query, min_revision=min_revision, allow_missing=True
        )

    async def _repeat_session_call(self, method: Any, request: Any) -> Any:
        """Return the response of the evidence service, after as many calls as it takes."""
        while (response := await self._call(method, request, self.ledger.refused_sessions)) is None:
            pass
        return response

    async def _call(self, method: Any, request: Any, refused: Counter[str] | None = None) -> Any:
        try:
            return await method(request, timeout=self._seconds)
        except HanseiError as error:
            self.ledger.refuse(error, refused)
            # Like a real caller: after a random pause.
            await asyncio.sleep(min(error.retry_after or 0.1, 1.0))
            return None

    async def progress(self, count: int = CALLERS + 1) -> None:
        """Wait for `count` more acknowledgements; with more than one a caller, at least one call has begun since."""
        goal = len(self.ledger.acknowledged) + count
        async with asyncio.timeout(WAIT_SECONDS), self._moved:
            await self._moved.wait_for(lambda: len(self.ledger.acknowledged) >= goal)

    async def close(self) -> None:
        """End the connections."""
        await self._peers.close()


@asynccontextmanager
async def load(
    address: str, callers: int = CALLERS, call_seconds: float = CALL_SECONDS, *, sessions: bool = False, faults: int = 1
) -> AsyncIterator[Load]:
    """Run callers during the block, in a dataset of their own; each of the faults may take some minutes."""
    made = Load(address, f"faults-{uuid.uuid4().hex[:12]}", call_seconds, sessions=sessions)
    try:
        if made.sessions is not None:
            await made.sessions.begin()
        async with asyncio.timeout(3 * WAIT_SECONDS * faults), asyncio.TaskGroup() as tasks:
            for _ in range(callers):
                tasks.create_task(made.go_on())
            try:
                await made.progress()
                yield made
            finally:
                made.enough = True
    finally:
        await made.close()


def check_ledger(fault: str, address: str, ledger: Ledger, recovery_seconds: float | None = None) -> None:
    """Assert that the playbook's log has each acknowledged trajectory once and no other; record the figure."""
    with jobs_at(address) as jobs:
        found = Counter(jobs.sources(ledger.dataset))
    lost = sorted(set(ledger.acknowledged) - set(found))
    twice = sorted(source for source, times in found.items() if times > 1)
    note(fault, ledger, len(lost), len(twice), recovery_seconds)
    if ledger.outcomes:
        check_outcomes(address, ledger.dataset, ledger.outcomes)
    assert lost == []
    assert twice == []
    assert sorted(found) == sorted(ledger.acknowledged)


@dataclass(frozen=True)
class Figure:
    """Represent a line of docs/operations/faults.md."""

    fault: str
    acknowledged: int
    lost: int
    twice: int
    refused: dict[str, int]
    recovery_seconds: float | None


def note(fault: str, ledger: Ledger, lost: int, twice: int, recovery_seconds: float | None) -> None:
    """Append a figure to the file that HANSEI_FAULTS_JSON names; nothing without it."""
    path = os.environ.get(FIGURES)
    if path:
        seconds = None if recovery_seconds is None else round(recovery_seconds, 1)
        refused = ledger.refused + Counter({f"session: {name}": n for name, n in ledger.refused_sessions.items()})
        figure = Figure(fault, len(ledger.acknowledged), lost, twice, dict(sorted(refused.items())), seconds)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(figure)) + "\n")


async def wait_for_recovery(made: Load) -> float:
    """Wait until the callers make progress again; return the seconds that it took."""
    began = time.monotonic()
    await made.progress()
    return time.monotonic() - began
