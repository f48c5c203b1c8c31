"""The rounds of one team: prompt, submission, score, record, then on or not (G-50 to G-63)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from chassis.errors import DeadlineExceeded
from chassis.logging import get_logger
from gateway.orchestrator.rounds_messages import judgment_of, round_message, score_details_of, scores_message
from gateway.orchestrator.rounds_plan import Plan, Team
from gateway.orchestrator.workflow import Attempt, GenerationFailed, Generator, Question, ReflectionWorkflow
from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.planner.v1 import generator_service_pb2 as generation
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from hansei.validator.v1 import evaluation_pb2 as evaluation
from hansei.validator.v1 import evaluator_service_pb2 as evaluator
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard
from libs.prompts.builder import UserPromptBuilder
from libs.prompts.contexts import ImprovementJudgment, RoundPromptContext, RoundState

MAX_ROUNDS_REACHED = "max_rounds_reached"
NO_IMPROVEMENT_EXPECTED = "no_improvement_expected"
PARTIAL_FAILURE = "partial_failure"
PARTIAL_FAILURE_TIMEOUT = "partial_failure_timeout"

Deliver = Callable[[rounds.RoundFinished], Awaitable[None]]
Limit = Callable[[float], AbstractAsyncContextManager[object]]
"""Ends its block with TimeoutError after so many seconds; `asyncio.timeout` is one."""

log = get_logger("hansei.gateway.rounds")


class Evaluator(Protocol):
    """What rounds ask of the evaluator."""

    async def evaluate(self, request: evaluator.EvaluateRequest) -> evaluator.EvaluateResponse:
        """The scores of a submission."""
        ...

    async def judge(self, request: evaluator.JudgeRequest) -> evaluator.JudgeResponse:
        """Whether another round is worthwhile."""
        ...


class Leaderboard(Protocol):
    """What rounds ask of the leaderboard."""

    async def upsert(
        self, request: leaderboard.UpsertLeaderboardEntryRequest
    ) -> leaderboard.UpsertLeaderboardEntryResponse:
        """Writes the row of a round."""
        ...

    async def record_judgement(
        self, request: leaderboard.RecordJudgementRequest
    ) -> leaderboard.RecordJudgementResponse:
        """Writes the judgement of a round."""
        ...

    async def ranking(self, request: leaderboard.GetRankingRequest) -> leaderboard.GetRankingResponse:
        """The teams of an execution, best first."""
        ...


@dataclass(frozen=True, slots=True)
class Equipment:
    """What teams work with: peers, prompts, a clock, ids of requests, and what limits time."""

    workflow: ReflectionWorkflow
    evaluator: Evaluator
    leaderboard: Leaderboard
    prompts: UserPromptBuilder
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    limit: Limit


@dataclass(frozen=True, slots=True)
class _Prompted:
    """A generator that is asked the team's prompt about what was found for the user's (G-51)."""

    generator: Generator
    prompt: str

    async def generate(self, request: generation.GenerateRequest) -> generation.GenerateResponse:
        request.query = self.prompt
        return await self.generator.generate(request)


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The leaderboard as the prompt builder asks for it (B-17)."""

    leaderboard: Leaderboard

    async def get_leader_board_ranking(self, execution_id: str) -> list[dict[str, object]]:
        found = await self.leaderboard.ranking(leaderboard.GetRankingRequest(execution_id=execution_id))
        fields = ("team_id", "team_name", "max_score", "total_rounds")
        return [{field: getattr(row, field) for field in fields} for row in found.rows]


class TeamRounds:
    """One team on its way through the rounds of an execution."""

    def __init__(self, equipment: Equipment, plan: Plan, team: Team, deliver: Deliver) -> None:
        self._with = equipment
        self._plan = plan
        self._team = team
        self._deliver = deliver
        self._history: list[RoundState] = []

    async def run(self, seconds: float) -> rounds.TeamResult:
        """What came of the team within `seconds`. Raises nothing but cancellation: a failure ends this team only."""
        try:
            exit_reason, error = await self._outcome(seconds)
            return await self._ended(exit_reason, error)
        except asyncio.CancelledError:
            await self._ended(PARTIAL_FAILURE, "cancelled")  # also then exactly one row is final (G-72)
            raise

    async def _outcome(self, seconds: float) -> tuple[str, str]:
        """Exit reason and error (G-60, G-63)."""
        try:
            async with self._limited(seconds, "the team", "team_timeout"):
                return await self._rounds(), ""
        except Exception as failure:
            log.warning("team failed", team=self._team.team_id, execution=self._plan.execution_id, exc_info=failure)
            late = isinstance(failure, TimeoutError)
            return PARTIAL_FAILURE_TIMEOUT if late else PARTIAL_FAILURE, told(failure)

    async def _rounds(self) -> str:
        number = 1
        await self._round(number)
        while await self._goes_on(number):
            number += 1
            await self._round(number)
        return MAX_ROUNDS_REACHED if number == self._plan.max_rounds else NO_IMPROVEMENT_EXPECTED  # G-60

    async def _round(self, number: int) -> None:
        """One round up to its event (G-50)."""
        began = self._with.now()
        attempt = await self._submission(number)
        content = attempt.trajectory.generated_answer
        scores = await self._evaluated(number, content)
        state = RoundState(
            round_number=number,
            submission_content=content,
            evaluation_score=scores.overall_score,
            score_details=score_details_of(scores),
            round_started_at=began,
            round_ended_at=self._with.now(),
        )
        await self._save(state)
        await self._record(number, leaderboard.JudgementRecord())
        self._history.append(state)
        await self._announce(state, attempt)

    async def _submission(self, number: int) -> Attempt:
        prompt = await self._with.prompts.build_team_prompt(self._context(number))
        workflow = replace(self._with.workflow, generator=_Prompted(self._with.workflow.generator, prompt))
        question = Question(self._plan.user_prompt, self._team.dataset, instruction=self._team.instruction)
        what = f"the submission of round {number}"
        async with self._limited(self._plan.submission_timeout, what, "submission_timeout"):
            attempt = await workflow.run(question, generation.GENERATE_STYLE_CITED)
        if attempt.trajectory.status == trajectory.TRAJECTORY_STATUS_FAILURE:
            raise GenerationFailed(attempt.trajectory.error_message or "the generation failed")  # G-53
        return attempt

    async def _evaluated(self, number: int, submission: str) -> evaluation.EvaluationResult:
        asked = evaluator.EvaluateRequest(
            user_query=self._plan.user_prompt,  # G-52, G-71: never the team's prompt
            submission=submission,
            execution_id=self._plan.execution_id,
            team_id=self._team.team_id,
            round_number=number,
            config=self._plan.evaluation,
        )
        return (await self._with.evaluator.evaluate(asked)).result

    async def _goes_on(self, number: int) -> bool:
        """Whether another round follows; three stages, of which only the third asks the judge (G-55 to G-57)."""
        plan = self._plan
        if number < plan.min_rounds:
            reasoning = f"Below minimum rounds ({number} < {plan.min_rounds})"
            await self._judged(ImprovementJudgment(should_continue=True, reasoning=reasoning, confidence_score=1.0))
            return True
        if number >= plan.max_rounds and not plan.judge_on_final_round:
            return False
        judgment = await self._judgment(number)
        if number >= plan.max_rounds:
            judgment = judgment.model_copy(update={"should_continue": False})
        await self._judged(judgment)
        return judgment.should_continue

    async def _judgment(self, number: int) -> ImprovementJudgment:
        prompt = await self._with.prompts.build_judgment_prompt(self._context(number))
        asked = evaluator.JudgeRequest(formatted_prompt=prompt, model=self._plan.judge_model)
        async with self._limited(self._plan.judgment_timeout, f"the judgement of round {number}", "judgment_timeout"):
            return judgment_of((await self._with.evaluator.judge(asked)).judgment)

    async def _judged(self, judgment: ImprovementJudgment) -> None:
        """Put a judgement to the latest round, here and on the leaderboard (G-58)."""
        self._history[-1] = self._history[-1].model_copy(update={"improvement_judgment": judgment})
        await self._record(
            self._history[-1].round_number,
            leaderboard.JudgementRecord(
                should_continue=judgment.should_continue,
                reasoning=judgment.reasoning,
                confidence_score=judgment.confidence_score,
            ),
        )

    def _context(self, number: int) -> RoundPromptContext:
        return RoundPromptContext(
            user_prompt=self._plan.user_prompt,
            round_number=number,
            round_history=self._history,
            team_id=self._team.team_id,
            team_name=self._team.team_name,
            execution_id=self._plan.execution_id,
            store=_Ranking(self._with.leaderboard),
        )

    async def _ended(self, exit_reason: str, error: str) -> rounds.TeamResult:
        """The result of the team; its best round becomes the final row (G-61)."""
        result = rounds.TeamResult(team_id=self._team.team_id, team_name=self._team.team_name, error=error)
        if not self._history:
            result.status = rounds.ROUNDS_STATUS_FAILED
            return result
        best = max(self._history, key=lambda state: (state.evaluation_score, state.round_number))
        try:
            await self._save(best, exit_reason)
        except Exception as failure:
            log.error(
                "final row not saved", team=self._team.team_id, execution=self._plan.execution_id, exc_info=failure
            )
            result.error = f"{error}; " * bool(error) + f"the final row was not saved: {told(failure)}"
        result.status = rounds.ROUNDS_STATUS_COMPLETED
        result.exit_reason = exit_reason
        result.rounds = len(self._history)
        result.best_round.CopyFrom(round_message(best))
        return result

    async def _save(self, state: RoundState, exit_reason: str | None = None) -> None:
        """Write the row of a round; with an exit reason it is the final one."""
        entry = leaderboard.LeaderBoardEntry(
            key=self._key(state.round_number),
            team_name=self._team.team_name,
            submission_content=state.submission_content,
            score=state.evaluation_score,
            score_details=scores_message(state.score_details),
            final_submission=exit_reason is not None,
            exit_reason=exit_reason,
        )
        asked = leaderboard.UpsertLeaderboardEntryRequest(request_id=self._with.new_id(), entry=entry)
        await self._with.leaderboard.upsert(asked)

    async def _record(self, number: int, record: leaderboard.JudgementRecord) -> None:
        asked = leaderboard.RecordJudgementRequest(
            request_id=self._with.new_id(), key=self._key(number), judgement=record
        )
        await self._with.leaderboard.record_judgement(asked)

    def _key(self, number: int) -> leaderboard.RoundKey:
        return leaderboard.RoundKey(
            execution_id=self._plan.execution_id, team_id=self._team.team_id, round_number=number
        )

    async def _announce(self, state: RoundState, attempt: Attempt) -> None:
        """Deliver the event of a round. That nobody hears it changes nothing (G-54)."""
        event = rounds.RoundFinished(
            team_id=self._team.team_id,
            team_name=self._team.team_name,
            round=round_message(state),
            trajectory=attempt.trajectory,
        )
        try:
            await self._deliver(event)
        except Exception as failure:
            log.warning("event not delivered", team=self._team.team_id, round=state.round_number, exc_info=failure)

    @asynccontextmanager
    async def _limited(self, seconds: float, what: str, field: str) -> AsyncIterator[None]:
        """A block that may take so long (G-62). Raises DeadlineExceeded naming the limit."""
        try:
            async with self._with.limit(seconds):
                yield
        except DeadlineExceeded:
            raise
        except TimeoutError as late:
            raise DeadlineExceeded(f"{what} took longer than {field} ({seconds:g} s)") from late


def told(failure: Exception) -> str:
    """A failure in words."""
    return str(failure) or type(failure).__name__
