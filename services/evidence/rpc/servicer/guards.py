"""GuardService: decide tool calls, take their results, list guards, and test targets on recorded trajectories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from chassis.targets.errors import InvalidTarget
from chassis.targets.guard import CallGuard
from chassis.targets.target import Target
from hansei.evidence.v1 import guard_service_pb2 as pb
from hansei.evidence.v1 import guard_service_pb2_grpc
from libs.guards.backtest import Backtest, backtest
from libs.storage.idempotency import IdempotencyKey, find_scope
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.evidence.domain.guard_modes import find_highest_mode
from services.evidence.domain.guard_trials import GuardTrial
from services.evidence.rpc.convert import guards as convert
from services.evidence.usecases.backtest_archive import PAGE_SIZE as BACKTEST_PAGE_SIZE
from services.evidence.usecases.backtest_archive import BacktestArchive
from services.evidence.usecases.check_call import CheckCall, limit_modes
from services.evidence.usecases.guard_decisions import GuardDecisions
from services.evidence.usecases.guard_ports import FiringCounts, GuardSource, GuardStore
from services.evidence.usecases.guard_trial_ports import GuardTrialStore

DEFAULT_PAGE_SIZE = 100


class GuardServicer(guard_service_pb2_grpc.GuardServiceServicer):
    """Decides tool calls by the targets of the bullets of a dataset."""

    def __init__(
        self,
        check_call: CheckCall,
        source: GuardSource,
        store: GuardStore,
        archive: BacktestArchive,
        trials: GuardTrialStore,
        decisions: GuardDecisions,
    ) -> None:
        self._trials = trials
        self._decisions = decisions
        self._check_call = check_call
        self._archive = archive
        self._source = source
        self._store = store

    async def CheckCall(self, request: pb.CheckCallRequest, context: Any) -> pb.CheckCallResponse:
        """Decide a tool call before it is made."""
        call = convert.decode_call(request.call)
        return convert.encode_checked_call(
            await self._check_call(request.dataset, request.session_id, call, request.min_events)
        )

    async def ReportCall(self, request: pb.ReportCallRequest, context: Any) -> pb.ReportCallResponse:
        """Add messages and a call with its result to a session."""
        events = convert.decode_events(request)
        key = IdempotencyKey.for_message(request, scope=find_scope(request.dataset))
        count = await self._check_call.report(key, request.dataset, request.session_id, events)
        return pb.ReportCallResponse(events=count)

    async def ReportSession(self, request: pb.ReportSessionRequest, context: Any) -> pb.ReportSessionResponse:
        """Count the outcome of a session for the guards that fired in it."""
        report = await self._trials.report_session(request.dataset, request.session_id, request.succeeded)
        return pb.ReportSessionResponse(counted=report.is_counted, firings=report.firings)

    async def ListGuardDecisions(
        self, request: pb.ListGuardDecisionsRequest, context: Any
    ) -> pb.ListGuardDecisionsResponse:
        """List the changes of modes, the newest first."""
        size = request.page_size or DEFAULT_PAGE_SIZE
        (before,) = decode_page_token(request, int) or (None,)
        found = await self._trials.list_decisions(request.dataset, before, size + 1)
        return pb.ListGuardDecisionsResponse(
            decisions=[convert.encode_decision(numbered) for numbered in found[:size]],
            next_page_token=encode_page_token(request, found[size - 1].number) if len(found) > size else "",
        )

    async def UndoGuardDecision(
        self, request: pb.UndoGuardDecisionRequest, context: Any
    ) -> pb.UndoGuardDecisionResponse:
        """Take back the newest decision about a guard."""
        undone, revision = await self._decisions.undo(request.dataset, request.number, request.author)
        return pb.UndoGuardDecisionResponse(decision=convert.encode_decision(undone, revision))

    async def ListGuards(self, request: pb.ListGuardsRequest, context: Any) -> pb.ListGuardsResponse:
        """List the guards of a dataset, those that fired most often first."""
        found = await self._source.find(request.dataset)
        counts = await self._store.count_firings(request.dataset)
        (start,) = decode_page_token(request, int) or (0,)
        end = start + (request.page_size or DEFAULT_PAGE_SIZE)
        none = FiringCounts()
        guards = sorted(found.guards, key=lambda guard: (-counts.get(guard.bullet_id, none).firings, guard.bullet_id))
        page = guards[start:end]
        in_effect = await limit_modes(self._store, request.dataset, page, found.pinned)
        trials = await self._trials.find_trials(request.dataset)
        passed = await self._trials.count_passed(request.dataset) if trials else 0
        return pb.ListGuardsResponse(
            guards=[
                convert.encode_guard(
                    guard,
                    counts.get(guard.bullet_id, none),
                    requested_mode=requested.mode,
                    is_pinned=guard.bullet_id in found.pinned,
                    evidence=_find_evidence(guard, trials, passed),
                )
                for guard, requested in zip(in_effect, page, strict=True)
            ],
            revision=found.revision,
            next_page_token=encode_page_token(request, end) if end < len(guards) else "",
        )

    async def BacktestTarget(self, request: pb.BacktestTargetRequest, context: Any) -> pb.BacktestTargetResponse:
        """Count the firings of a target in recorded trajectories, failing and passing."""
        target = _compile(request.expression)
        if not request.HasField("archive"):
            return convert.encode_backtest(await _test_trajectories(target, request.trajectories))
        before, *earlier = decode_page_token(request, *[int] * 7) or (None, 0, 0, 0, 0, 0, 0)
        page = await self._archive.test_page(
            target, request.archive.dataset, before, request.page_size or BACKTEST_PAGE_SIZE
        )
        response = convert.encode_backtest_page(page, earlier)
        if page.next_cursor is not None:
            response.next_page_token = encode_page_token(request, page.next_cursor, *convert.list_counts(response))
        return response

    async def StoreBacktest(self, request: pb.StoreBacktestRequest, context: Any) -> pb.StoreBacktestResponse:
        """Test a target and store the counts, so that its guard may leave SHADOW."""
        target = _compile(request.expression)
        number = await self._store.find_archived_number(request.dataset)
        if request.trajectories:
            result = await _test_trajectories(target, request.trajectories)
        else:
            result = await self._archive.test(target, request.dataset)
        await self._store.store_backtest(request.dataset, request.expression, result, number)
        highest = find_highest_mode(result.false_alarm_bound)
        return pb.StoreBacktestResponse(
            backtest=convert.encode_backtest(result), highest_mode=convert.encode_mode(highest)
        )


def _find_evidence(guard: CallGuard, trials: Mapping[str, GuardTrial], passed: int) -> pb.GuardEvidence | None:
    trial = trials.get(guard.bullet_id)
    return convert.encode_evidence(trial, passed) if trial and trial.target == guard.target.source else None


def _compile(expression: str) -> Target:
    """Return a target. Raises InvalidTarget."""
    try:
        return Target(expression)
    except InvalidTarget as error:
        raise InvalidTarget(expression, error.rule, "expression") from error


async def _test_trajectories(target: Target, trajectories: Sequence[pb.GuardTrajectory]) -> Backtest:
    """Return the firings of a target in the trajectories of a request. Raises InvalidCallArguments."""
    return await asyncio.to_thread(backtest, target, convert.decode_guard_trajectories(trajectories))
