"""Rounds: teams work on one prompt at the same time, each on its own, and are ranked at the end (G-46 to G-65)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from chassis import deadlines
from chassis.errors import AlreadyExists, shortened
from gateway.orchestrator.rounds_plan import Plan, plan_of
from gateway.orchestrator.rounds_team import Deliver, Equipment, TeamRounds
from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard

RESERVE_SHARE = 0.1
RESERVE_MAX_SECONDS = 10.0
"""Of the caller's time, kept for final rows and the ranking, at most."""


class ExecutionExists(AlreadyExists):
    """The leaderboard has rows of this execution: its final rows must stay the only ones (G-72)."""

    reason = "EXECUTION_EXISTS"

    def __init__(self, execution_id: str) -> None:
        super().__init__(
            f"execution {shortened(execution_id)!r} has rounds already; leave execution_id out or choose another"
        )


@dataclass(frozen=True, slots=True)
class Rounds:
    """Runs the teams of an execution."""

    equipment: Equipment
    _running: set[str] = field(default_factory=set)

    async def events(self, request: rounds.RunRoundsRequest) -> AsyncGenerator[rounds.RunRoundsResponse]:
        """Every finished round, then the result. Raises InvalidArgument, ExecutionExists.

        Leaving early ends the teams; those that completed a round still get their final row.
        """
        plan = plan_of(request, self.equipment.new_id)
        finished: asyncio.Queue[rounds.RoundFinished | None] = asyncio.Queue()
        running = asyncio.create_task(self.run(plan, finished.put))
        running.add_done_callback(lambda _: finished.put_nowait(None))
        try:
            while (event := await finished.get()) is not None:
                yield rounds.RunRoundsResponse(execution_id=plan.execution_id, round_finished=event)
            yield rounds.RunRoundsResponse(execution_id=plan.execution_id, result=await running)
        finally:
            running.cancel()
            # Whoever left early hears no result; teams write down themselves what they failed with.
            await asyncio.gather(running, return_exceptions=True)

    async def run(self, plan: Plan, deliver: Deliver) -> rounds.RoundsResult:
        """The result of all teams; each finished round is delivered. Raises ExecutionExists."""
        if plan.execution_id in self._running:
            raise ExecutionExists(plan.execution_id)
        self._running.add(plan.execution_id)
        try:
            return await self._run(plan, deliver)
        finally:
            self._running.discard(plan.execution_id)

    async def _run(self, plan: Plan, deliver: Deliver) -> rounds.RoundsResult:
        if await self._ranking(plan):
            raise ExecutionExists(plan.execution_id)
        seconds = _team_seconds(plan)
        async with asyncio.TaskGroup() as group:  # a team raises nothing, so none can end the others (G-69)
            running = [
                group.create_task(TeamRounds(self.equipment, plan, team, deliver).run(seconds)) for team in plan.teams
            ]
        return _result([task.result() for task in running], await self._ranking(plan))

    async def _ranking(self, plan: Plan) -> Sequence[leaderboard.RankingRow]:
        asked = leaderboard.GetRankingRequest(execution_id=plan.execution_id)
        return (await self.equipment.leaderboard.ranking(asked)).rows


def _team_seconds(plan: Plan) -> float:
    """What a team may take, so that the outcome still reaches a caller with less time (G-62)."""
    left = deadlines.remaining()
    if left is None:
        return plan.team_timeout
    return min(plan.team_timeout, left - min(RESERVE_MAX_SECONDS, RESERVE_SHARE * left))


def _result(teams: list[rounds.TeamResult], ranking: Sequence[leaderboard.RankingRow]) -> rounds.RoundsResult:
    """The best team is the first of the ranking (G-64); a row alone does not make one: its team completed a round."""
    completed = {team.team_id: team for team in teams if team.status == rounds.ROUNDS_STATUS_COMPLETED}
    status = rounds.ROUNDS_STATUS_COMPLETED if completed else rounds.ROUNDS_STATUS_FAILED  # G-65
    result = rounds.RoundsResult(status=status, teams=teams, ranking=ranking)
    best = next((completed[row.team_id] for row in ranking if row.team_id in completed), None)
    if best is not None:
        result.best_team_id = best.team_id
        result.best_submission = best.best_round.submission_content
    return result
