"""Sessions of agents in a load: they recall bullets, check and report tool calls, and report outcomes.

Two reports of a kind race in each session.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from hansei.client import Client
from hansei.evidence.v1 import (
    evidence_pb2,
    evidence_service_pb2,
    evidence_service_pb2_grpc,
    guard_service_pb2,
    guard_service_pb2_grpc,
)
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc

Repeat = Callable[[Any, Any], Awaitable[Any]]
GUARDED = guard_service_pb2.GuardedCall(tool="git_commit", arguments="{}")
EXPRESSION = "call.tool == 'git_commit' && !succeeded('git_config')"


class GuardedSessions:
    """Sessions in one dataset, each call repeated until it is acknowledged."""

    def __init__(self, channel: Any, dataset: str, repeat: Repeat) -> None:
        """`repeat` makes a call again and again until it has a response, and returns that."""
        self._dataset = dataset
        self._repeat = repeat
        self._evidence: Any = evidence_service_pb2_grpc.EvidenceServiceStub(channel)
        self._guards: Any = guard_service_pb2_grpc.GuardServiceStub(channel)
        self._playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)

    async def begin(self) -> None:
        """Store a guard, and start the trials."""
        delta = playbook_pb2.Delta(
            type=playbook_pb2.DELTA_TYPE_ADD, section="git", content="Set user.name first.", reasoning="agreed"
        )
        delta.target.expression = EXPRESSION
        delta.target.pinned = True
        delta.target.mode = playbook_pb2.TARGET_MODE_DENY
        await self._playbooks.ApplyDeltas(
            playbook_service_pb2.ApplyDeltasRequest(request_id=str(uuid.uuid4()), dataset=self._dataset, deltas=[delta])
        )
        policy = evidence_pb2.TrialPolicy(playbook_holdout=0, margin=0.01)
        await self._evidence.StartTrials(
            evidence_service_pb2.StartTrialsRequest(request_id=str(uuid.uuid4()), dataset=self._dataset, policy=policy)
        )

    async def run(self) -> dict[str, float]:
        """Go through one session; return the outcome that counts, by serving."""
        session_id = uuid.uuid4().hex
        recall = evidence_service_pb2.RecallRequest(dataset=self._dataset, session_id=session_id, query_text="commit")
        served = await self._repeat(self._evidence.Recall, recall)
        first = await self._check(session_id)
        assert first.note or first.decision == guard_service_pb2.GUARD_DECISION_DENY
        reports = await asyncio.gather(*(self._report(session_id) for _ in range(2)))
        assert sorted(report.events for report in reports) == [1, 2], "each report is counted once"
        second = await self._check(session_id)
        assert second.note or second.decision == guard_service_pb2.GUARD_DECISION_ALLOW
        if not served.serving_id:  # search was unavailable: nothing is measured
            return {}
        outcomes = await asyncio.gather(*(self._report_outcome(served.serving_id) for _ in range(2)))
        assert outcomes[0].outcome == outcomes[1].outcome, "the first report counts"
        return {served.serving_id: outcomes[0].outcome}

    async def _check(self, session_id: str) -> guard_service_pb2.CheckCallResponse:
        request = guard_service_pb2.CheckCallRequest(dataset=self._dataset, session_id=session_id, call=GUARDED)
        response: guard_service_pb2.CheckCallResponse = await self._repeat(self._guards.CheckCall, request)
        return response

    async def _report(self, session_id: str) -> Any:
        request = guard_service_pb2.ReportCallRequest(
            request_id=str(uuid.uuid4()), dataset=self._dataset, session_id=session_id, result="ok"
        )
        request.call.tool = "git_config"
        return await self._repeat(self._guards.ReportCall, request)

    async def _report_outcome(self, serving_id: str) -> Any:
        request = evidence_service_pb2.ReportOutcomeRequest(
            dataset=self._dataset, serving_id=serving_id, reward=random.random()
        )
        return await self._repeat(self._evidence.ReportOutcome, request)


def check_outcomes(address: str, dataset: str, outcomes: dict[str, float]) -> None:
    """Assert that the evidence service has counted each outcome once, and no other."""
    with Client(address) as client:
        status = client.evidence.get_trials(dataset=dataset)
        assert status.sessions - status.sessions_without_outcome == len(outcomes)
        for serving_id, outcome in outcomes.items():
            stored = client.evidence.report_outcome(dataset=dataset, serving_id=serving_id, reward=0)
            assert stored.outcome == outcome
        assert client.evidence.get_trials(dataset=dataset) == status
