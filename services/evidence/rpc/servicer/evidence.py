"""EvidenceService: trials, servings, outcomes, effects and decisions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from chassis.server.messages import encode
from hansei.evidence.v1 import evidence_pb2, evidence_service_pb2_grpc
from hansei.evidence.v1 import evidence_service_pb2 as pb
from hansei.evidence.v1.archive_service_pb2 import StoreTrajectoryRequest
from libs.storage.idempotency import IdempotencyKey, find_scope
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.evidence.domain.trials import BulletDecision, BulletState
from services.evidence.rpc.convert import evidence as convert
from services.evidence.rpc.convert.archive import decode_request
from services.evidence.usecases.archive_ports import IncomingTrajectory
from services.evidence.usecases.conclude import conclude
from services.evidence.usecases.decisions import DecisionPublisher
from services.evidence.usecases.ports import EvidenceStore, OutcomeReport, RecallQuery
from services.evidence.usecases.recall import Recall

DEFAULT_PAGE_SIZE = 100
WATCH_SECONDS = 0.5
"""Pause before a watcher looks for new decisions again; replicas share the database only."""


class EvidenceServicer(evidence_service_pb2_grpc.EvidenceServiceServicer):
    """Withholds bullets at random and measures their effects."""

    def __init__(
        self,
        recall: Recall,
        store: EvidenceStore,
        publisher: DecisionPublisher,
        archive: Callable[[IncomingTrajectory], Awaitable[bool]],
        *,
        count_serving: Callable[[bool], None],
        count_report: Callable[[bool, Sequence[BulletDecision]], None],
    ) -> None:
        self._recall = recall
        self._store = store
        self._publisher = publisher
        self._archive = archive
        self._count_serving = count_serving
        self._count_report = count_report

    async def StartTrials(self, request: pb.StartTrialsRequest, context: Any) -> pb.StartTrialsResponse:
        """Start or change the trials of a dataset."""
        policy = convert.decode_policy(request.policy)
        is_restarted = await self._store.start(_build_key(request), request.dataset, policy)
        return pb.StartTrialsResponse(policy=encode(policy, evidence_pb2.TrialPolicy), restarted=is_restarted)

    async def StopTrials(self, request: pb.StopTrialsRequest, context: Any) -> pb.StopTrialsResponse:
        """Stop the trials of a dataset."""
        await self._store.stop(_build_key(request), request.dataset)
        return pb.StopTrialsResponse()

    async def GetTrials(self, request: pb.GetTrialsRequest, context: Any) -> pb.GetTrialsResponse:
        """Return the policy, the counts and the checks of a dataset."""
        trials = await self._store.find_trials(request.dataset)
        if trials is None:
            return pb.GetTrialsResponse()
        states = Counter(trial.state for trial in await self._store.list_bullet_trials(request.dataset))
        response = pb.GetTrialsResponse(
            running=trials.is_running,
            policy=encode(trials.policy, evidence_pb2.TrialPolicy),
            sessions=trials.servings.total,
            sessions_without_outcome=trials.servings.total - trials.reports.total,
            checks=convert.encode_checks(trials),
            bullets=[
                pb.StateCount(state=evidence_pb2.BulletState.Value(f"BULLET_STATE_{state.name}"), bullets=states[state])
                for state in BulletState
                if states[state]
            ],
        )
        response.started_at.FromDatetime(trials.began_at)
        return response

    async def Recall(self, request: pb.RecallRequest, context: Any) -> pb.RecallResponse:
        """Return the bullets for a query of a session."""
        recalled = await self._recall(
            RecallQuery(
                request.dataset,
                request.session_id,
                request.query_text,
                request.top_k if request.HasField("top_k") else None,
                request.min_revision,
                request.allow_missing,
            )
        )
        self._count_serving(recalled.is_randomized)
        return pb.RecallResponse(
            results=recalled.results,
            revision=recalled.revision,
            serving_id=recalled.serving_id,
            randomized=recalled.is_randomized,
            note=recalled.note,
        )

    async def ReportOutcome(self, request: pb.ReportOutcomeRequest, context: Any) -> pb.ReportOutcomeResponse:
        """Store and count the outcome of a serving, after the trajectory, if there is one."""
        if request.HasField("trajectory"):
            await self._archive(
                decode_request(StoreTrajectoryRequest(dataset=request.dataset, trajectory=request.trajectory))
            )
        outcome = float(request.succeeded) if request.WhichOneof("outcome") == "succeeded" else request.reward
        result = await self._store.report(
            request.dataset, OutcomeReport(request.serving_id, outcome, request.correction)
        )
        self._count_report(result.counted, [decision for _, decision in result.decisions])
        return pb.ReportOutcomeResponse(
            counted=result.counted,
            outcome=result.outcome,
            decisions=await self._encode_decisions(request.dataset, result.decisions),
        )

    async def GetEffects(self, request: pb.GetEffectsRequest, context: Any) -> pb.GetEffectsResponse:
        """Return the effect of each bullet, the strongest evidence first."""
        trials = await self._store.find_trials(request.dataset)
        (start,) = decode_page_token(request, int) or (0,)
        if trials is None:
            return pb.GetEffectsResponse()
        end = start + (request.page_size or DEFAULT_PAGE_SIZE)
        bullets = await self._store.list_bullet_trials(request.dataset)
        bullets.sort(key=lambda trial: (-trial.statistics.evidence, trial.position))
        return pb.GetEffectsResponse(
            effects=convert.encode_bullet_effects(bullets[start:end], trials.policy),
            next_page_token=encode_page_token(request, end) if end < len(bullets) else "",
        )

    async def GetLift(self, request: pb.GetLiftRequest, context: Any) -> pb.GetLiftResponse:
        """Return the effect of the whole playbook."""
        trials = await self._store.find_trials(request.dataset)
        found = conclude(trials)
        response = pb.GetLiftResponse(
            conclusion=found.sentence,
            verdict=evidence_pb2.Verdict.Value(f"VERDICT_{found.verdict.name}"),
            more_sessions=found.more_sessions,
        )
        if trials and trials.policy.playbook_holdout:
            response.lift.CopyFrom(convert.encode_effect(trials.lift, 1.0 - trials.policy.playbook_holdout))
        return response

    async def GetEffectHistory(self, request: pb.GetEffectHistoryRequest, context: Any) -> pb.GetEffectHistoryResponse:
        """Return how the effect of a bullet, or of the whole playbook, developed."""
        trials = await self._store.find_trials(request.dataset)
        if trials is None:
            return pb.GetEffectHistoryResponse()
        holdout = trials.policy.bullet_holdout if request.bullet_id else trials.policy.playbook_holdout
        points = await self._store.list_points(request.dataset, request.bullet_id)
        return pb.GetEffectHistoryResponse(points=convert.encode_points(points, 1.0 - holdout))

    async def ListDecisions(self, request: pb.ListDecisionsRequest, context: Any) -> pb.ListDecisionsResponse:
        """List the decisions of a dataset, the newest first."""
        size = request.page_size or DEFAULT_PAGE_SIZE
        (before,) = decode_page_token(request, int) or (None,)
        decisions = await self._store.list_decisions(request.dataset, before, size + 1)
        token = encode_page_token(request, decisions[size - 1][0]) if len(decisions) > size else ""
        encoded = await self._encode_decisions(request.dataset, decisions[:size])
        return pb.ListDecisionsResponse(decisions=encoded, next_page_token=token)

    async def UndoDecision(self, request: pb.UndoDecisionRequest, context: Any) -> pb.UndoDecisionResponse:
        """Put the bullet of a decision back on trial."""
        undone = await self._publisher.undo(request.dataset, request.number, request.author)
        response = pb.UndoDecisionResponse()
        response.decision.CopyFrom(
            (await self._encode_decisions(request.dataset, [(undone.number, undone.decision)]))[0]
        )
        if undone.added is not None:
            response.added_bullet_id, response.revision = undone.added
        return response

    async def WatchDecisions(
        self, request: pb.WatchDecisionsRequest, context: Any
    ) -> AsyncIterator[pb.WatchDecisionsResponse]:
        """Send the decisions after a number, then each new one."""
        number, key = request.after_number, None
        while True:
            trials = await self._store.find_trials(request.dataset)
            if key is not None and (trials is None or trials.key != key):
                number = 0  # the dataset was deleted: the numbers of a new one begin again
            key = None if trials is None else trials.key
            decisions = await self._store.list_later_decisions(request.dataset, number, DEFAULT_PAGE_SIZE)
            for decision in await self._encode_decisions(request.dataset, decisions):
                yield pb.WatchDecisionsResponse(decision=decision)
                number = decision.number
            if not decisions:
                await asyncio.sleep(WATCH_SECONDS)

    async def _encode_decisions(self, dataset: str, decisions: list[Any]) -> list[evidence_pb2.Decision]:
        if not decisions:
            return []
        trials = await self._store.find_trials(dataset)
        if trials is None:  # the dataset was deleted meanwhile
            return []
        return [convert.encode_decision(number, decision, trials.policy) for number, decision in decisions]


def _build_key(request: pb.StartTrialsRequest | pb.StopTrialsRequest) -> IdempotencyKey:
    return IdempotencyKey.for_message(request, scope=find_scope(request.dataset))
