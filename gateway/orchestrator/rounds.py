"""Run rounds: teams work independently and in parallel on one prompt, and are ranked at the end (G-46 to G-65).

The validator decides whether a team continues, when the judge is called and which round is the best.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from chassis import deadlines
from chassis.errors import AlreadyExists, DeadlineExceeded, InvalidArgument, Violation, shorten
from chassis.logging import get_logger
from gateway.orchestrator.ports import EvaluatorPort, Generator, LeaderboardPort, Limit
from gateway.orchestrator.usage import sum_usage
from gateway.orchestrator.workflow import (
    DEFAULT_DATASET,
    GenerationFailed,
    ReflectionWorkflow,
    WorkflowState,
)
from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.planner.v1 import generator_service_pb2 as generation
from hansei.playbook.v1.usage_pb2 import ModelUsage
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from hansei.validator.v1 import evaluation_pb2 as evaluation
from hansei.validator.v1 import evaluator_service_pb2 as evaluator
from hansei.validator.v1 import leaderboard_service_pb2 as board
from libs.prompts.builder import UserPromptBuilder
from libs.prompts.contexts import ImprovementJudgment, RoundPromptContext, RoundState

PARTIAL_FAILURE = "partial_failure"
PARTIAL_FAILURE_TIMEOUT = "partial_failure_timeout"

MAX_ROUNDS = 5
MIN_ROUNDS = 2
SECONDS = {"submission_timeout": 300, "judgment_timeout": 60, "team_timeout": 1800}
RESERVE_SHARE = 0.1
RESERVE_MAX_SECONDS = 10.0
"""The largest part of the caller's time that is reserved for final rows and the ranking."""

Deliver = Callable[[rounds.RoundFinished], Awaitable[None]]

log = get_logger("hansei.gateway.rounds")


class ExecutionExists(AlreadyExists):
    """The leaderboard already has rows of this execution; each team has only one final row (G-72)."""

    reason = "EXECUTION_EXISTS"

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"execution {shorten(execution_id)!r} already has rounds; omit execution_id or choose another")


def build_plan(request: rounds.RunRoundsRequest, new_id: Callable[[], str]) -> rounds.RunRoundsRequest:
    """Return the request with its defaults filled in (G-46 to G-49).

    Raises InvalidArgument with every broken rule.
    """
    plan = rounds.RunRoundsRequest()
    plan.CopyFrom(request)
    if not plan.HasField("max_rounds"):
        plan.max_rounds = MAX_ROUNDS
    if not plan.HasField("min_rounds"):
        plan.min_rounds = min(MIN_ROUNDS, plan.max_rounds)  # G-48
    if not plan.HasField("judge_on_final_round"):
        plan.judge_on_final_round = True
    if not plan.HasField("execution_id"):
        plan.execution_id = new_id()
    for name, seconds in SECONDS.items():
        if not plan.HasField(name):  # type: ignore[arg-type]
            getattr(plan, name).FromSeconds(seconds)
    for team in plan.teams:
        if not team.HasField("dataset"):
            team.dataset = DEFAULT_DATASET
    violations = list(_find_violations(plan))
    if violations:
        raise InvalidArgument(violations[0].description, violations=violations)
    return plan


def _find_violations(plan: rounds.RunRoundsRequest) -> Iterator[Violation]:
    """Yield violations: blank texts, from which no prompt can be built (B-04), duplicate teams, and wrong bounds."""
    required_texts = [("user_prompt", plan.user_prompt), ("execution_id", plan.execution_id)]
    for index, team in enumerate(plan.teams):
        required_texts += [(f"teams[{index}].team_id", team.team_id), (f"teams[{index}].team_name", team.team_name)]
    for path, value in required_texts:
        if not value.strip():
            yield Violation(path, f"{path.rpartition('.')[2]} cannot be empty")
    counts = Counter(team.team_id for team in plan.teams)
    duplicates = [team_id for team_id, count in counts.items() if count > 1]
    if duplicates:
        yield Violation("teams", f"Duplicate team ids found: {', '.join(duplicates)}")
    if plan.min_rounds > plan.max_rounds:
        yield Violation("min_rounds", f"min_rounds ({plan.min_rounds}) must be <= max_rounds ({plan.max_rounds})")


@dataclass(frozen=True, slots=True)
class Rounds:
    """Run the teams of an execution. `now` is a clock, `new_id` returns new ids, `limit` is a timeout."""

    workflow: ReflectionWorkflow
    evaluator: EvaluatorPort
    leaderboard: LeaderboardPort
    prompts: UserPromptBuilder
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    limit: Limit = asyncio.timeout
    _running: set[str] = field(default_factory=set)

    async def events(self, request: rounds.RunRoundsRequest) -> AsyncGenerator[rounds.RunRoundsResponse]:
        """Yield every finished round, then the result. Raises InvalidArgument, ExecutionExists.

        Closing the iterator cancels the teams; those that completed a round still get their final row.
        """
        plan = build_plan(request, self.new_id)
        finished: asyncio.Queue[rounds.RoundFinished | None] = asyncio.Queue()
        running = asyncio.create_task(self.run(plan, finished.put))
        running.add_done_callback(lambda _: finished.put_nowait(None))
        try:
            while (event := await finished.get()) is not None:
                yield rounds.RunRoundsResponse(execution_id=plan.execution_id, round_finished=event)
            yield rounds.RunRoundsResponse(execution_id=plan.execution_id, result=await running)
        finally:
            running.cancel()
            # A caller that left gets no result; the teams log their failures.
            await asyncio.gather(running, return_exceptions=True)

    async def run(self, plan: rounds.RunRoundsRequest, deliver: Deliver) -> rounds.RoundsResult:
        """Return the result of all teams; each finished round is delivered. Raises ExecutionExists."""
        if plan.execution_id in self._running:
            raise ExecutionExists(plan.execution_id)
        self._running.add(plan.execution_id)
        try:
            if await self.read_ranking(plan.execution_id):
                raise ExecutionExists(plan.execution_id)
            seconds = _compute_team_seconds(plan)
            async with asyncio.TaskGroup() as group:  # a team raises nothing, so it cannot cancel the others (G-69)
                teams = [group.create_task(_TeamRun(self, plan, team, deliver).run(seconds)) for team in plan.teams]
            return _build_result([task.result() for task in teams], await self.read_ranking(plan.execution_id))
        finally:
            self._running.discard(plan.execution_id)

    async def read_ranking(self, execution_id: str) -> Sequence[board.RankingRow]:
        """Return the teams of an execution, best first."""
        return (await self.leaderboard.GetRanking(board.GetRankingRequest(execution_id=execution_id))).rows

    async def get_leader_board_ranking(self, execution_id: str) -> list[dict[str, object]]:
        """Return the ranking in the form of the prompt builder (B-17)."""
        fields = ("team_id", "team_name", "max_score", "total_rounds")
        return [{name: getattr(row, name) for name in fields} for row in await self.read_ranking(execution_id)]


def _compute_team_seconds(plan: rounds.RunRoundsRequest) -> float:
    """Return the timeout of a team, which leaves time to return the result before the caller's deadline (G-62)."""
    seconds, left = plan.team_timeout.ToTimedelta().total_seconds(), deadlines.get_remaining()
    return seconds if left is None else min(seconds, left - min(RESERVE_MAX_SECONDS, RESERVE_SHARE * left))


def _build_result(teams: list[rounds.TeamResult], ranking: Sequence[board.RankingRow]) -> rounds.RoundsResult:
    """Return the result. The best team is the first in the ranking that completed a round (G-64)."""
    completed = {team.team_id: team for team in teams if team.status == rounds.ROUNDS_STATUS_COMPLETED}
    status = rounds.ROUNDS_STATUS_COMPLETED if completed else rounds.ROUNDS_STATUS_FAILED  # G-65
    result = rounds.RoundsResult(status=status, teams=teams, ranking=ranking)
    best = next((completed[row.team_id] for row in ranking if row.team_id in completed), None)
    if best is not None:
        result.best_team_id = best.team_id
        result.best_submission = best.best_round.submission_content
    result.usage.CopyFrom(sum_usage(*(team.usage for team in teams)))
    return result


@dataclass(frozen=True, slots=True)
class _TeamGenerator:
    """A generator that gets the team's prompt, with the search results for the user's prompt (G-51)."""

    generator: Generator
    prompt: str

    async def Generate(self, request: generation.GenerateRequest) -> generation.GenerateResponse:
        request.query = self.prompt
        return await self.generator.Generate(request)


class _TeamRun:
    """The rounds of one team in an execution."""

    def __init__(self, peers: Rounds, plan: rounds.RunRoundsRequest, team: rounds.Team, deliver: Deliver) -> None:
        self._peers = peers
        self._plan = plan
        self._team = team
        self._deliver = deliver
        self._history: list[rounds.RoundState] = []
        self._best_round = 0
        self._usage = ModelUsage()

    async def run(self, seconds: float) -> rounds.TeamResult:
        """Return the result of the team within `seconds`. Raises only CancelledError: a failure ends only this team."""
        try:
            exit_reason, error = await self._determine_outcome(seconds)
            return await self._finish(exit_reason, error)
        except asyncio.CancelledError:
            await self._finish(PARTIAL_FAILURE, "cancelled")  # a cancelled team also has exactly one final row (G-72)
            raise

    async def _determine_outcome(self, seconds: float) -> tuple[str, str]:
        """Return the exit reason and the error (G-60, G-63)."""
        try:
            async with self._time_limit(seconds, "the team", "team_timeout"):
                while True:
                    await self._run_round(len(self._history) + 1)
                    decision = await self._decide_round()
                    if not decision.should_continue:
                        return decision.exit_reason, ""
        except Exception as failure:
            log.warning("team failed", team=self._team.team_id, execution=self._plan.execution_id, exc_info=failure)
            exit_reason = PARTIAL_FAILURE_TIMEOUT if isinstance(failure, TimeoutError) else PARTIAL_FAILURE
            return exit_reason, _read_text(failure)

    async def _run_round(self, number: int) -> None:
        """Run one round up to its event (G-50)."""
        state = rounds.RoundState(round_number=number)
        state.round_started_at.FromDatetime(self._peers.now())
        submission = await self._submit_answer(state)
        state.submission_content = submission.generated_answer
        state.score_details.CopyFrom(await self._evaluate_answer(state))
        state.evaluation_score = state.score_details.overall_score
        state.round_ended_at.FromDatetime(self._peers.now())
        best_round = await self._save(state)
        await self._record(board.JudgementRecord(), number)
        self._history.append(state)
        self._best_round = best_round
        await self._deliver_event(state, submission)

    async def _submit_answer(self, state: rounds.RoundState) -> trajectory.Trajectory:
        prompt = await self._peers.prompts.build_team_prompt(self._build_context(len(self._history) + 1))
        workflow = replace(self._peers.workflow, generator=_TeamGenerator(self._peers.workflow.generator, prompt))
        question = WorkflowState(self._plan.user_prompt, self._team.dataset, instruction=self._team.instruction)
        async with self._limit_time("submission_timeout", f"the submission of round {len(self._history) + 1}"):
            answered = await workflow.run(question)
        self._add_usage(state, answered.usage)
        if answered.trajectory.status == trajectory.TRAJECTORY_STATUS_FAILURE:
            raise GenerationFailed(answered.trajectory.error_message or "the generation failed")  # G-53
        return answered.trajectory

    async def _evaluate_answer(self, state: rounds.RoundState) -> evaluation.EvaluationResult:
        request = evaluator.EvaluateRequest(
            user_query=self._plan.user_prompt,  # G-52, G-71: never the team's prompt
            submission=state.submission_content,
            execution_id=self._plan.execution_id,
            team_id=self._team.team_id,
            round_number=state.round_number,
            config=self._plan.evaluation if self._plan.HasField("evaluation") else None,
        )
        response = await self._peers.evaluator.Evaluate(request)
        self._add_usage(state, response.usage)
        return response.result

    def _add_usage(self, state: rounds.RoundState, usage: ModelUsage) -> None:
        state.usage.CopyFrom(sum_usage(state.usage, usage))
        self._usage = sum_usage(self._usage, usage)

    async def _decide_round(self) -> evaluator.DecideRoundResponse:
        """Return whether another round follows; store the judgement in the latest round (G-55 to G-58)."""
        plan, state = self._plan, self._history[-1]
        request = evaluator.DecideRoundRequest(
            round_number=state.round_number,
            min_rounds=plan.min_rounds,
            max_rounds=plan.max_rounds,
            judge_on_final_round=plan.judge_on_final_round,
            model=plan.judge_model if plan.HasField("judge_model") else None,
        )
        decision = await self._peers.evaluator.DecideRound(request)
        if decision.judgment_required:
            context = self._build_context(state.round_number)
            request.formatted_prompt = await self._peers.prompts.build_judgment_prompt(context)
            async with self._limit_time("judgment_timeout", f"the judgement of round {state.round_number}"):
                decision = await self._peers.evaluator.DecideRound(request)
        self._add_usage(state, decision.usage)
        if decision.HasField("judgment"):
            state.improvement_judgment.CopyFrom(decision.judgment)
            record = board.JudgementRecord(
                should_continue=decision.judgment.should_continue,
                reasoning=decision.judgment.reasoning,
                confidence_score=decision.judgment.confidence_score,
            )
            await self._record(record, state.round_number)
        return decision

    def _build_context(self, number: int) -> RoundPromptContext:
        return RoundPromptContext(
            user_prompt=self._plan.user_prompt,
            round_number=number,
            round_history=[_build_prompt_state(state) for state in self._history],
            team_id=self._team.team_id,
            team_name=self._team.team_name,
            execution_id=self._plan.execution_id,
            store=self._peers,
        )

    async def _finish(self, exit_reason: str, error: str) -> rounds.TeamResult:
        """Return the result of the team; its best round becomes the final row (G-61)."""
        team_id, team_name = self._team.team_id, self._team.team_name
        result = rounds.TeamResult(team_id=team_id, team_name=team_name, error=error, usage=self._usage)
        if not self._history:
            result.status = rounds.ROUNDS_STATUS_FAILED
            return result
        best = self._history[self._best_round - 1]
        try:
            await self._save(best, exit_reason)
        except Exception as failure:
            log.error(
                "final leaderboard row not saved",
                team=self._team.team_id,
                execution=self._plan.execution_id,
                exc_info=failure,
            )
            result.error = f"{error}; " * bool(error) + f"the final row was not saved: {_read_text(failure)}"
        result.status = rounds.ROUNDS_STATUS_COMPLETED
        result.exit_reason = exit_reason
        result.rounds = len(self._history)
        result.best_round.CopyFrom(best)
        return result

    async def _save(self, state: rounds.RoundState, exit_reason: str | None = None) -> int:
        """Write the row of a round, the final one with an exit reason; return the number of the team's best round."""
        entry = board.LeaderBoardEntry(
            key=self._build_key(state.round_number),
            team_name=self._team.team_name,
            submission_content=state.submission_content,
            score=state.evaluation_score,
            score_details=state.score_details,
            final_submission=exit_reason is not None,
            exit_reason=exit_reason,
        )
        request = board.UpsertLeaderboardEntryRequest(request_id=self._peers.new_id(), entry=entry)
        return (await self._peers.leaderboard.UpsertLeaderboardEntry(request)).best_round_number

    async def _record(self, record: board.JudgementRecord, number: int) -> None:
        request = board.RecordJudgementRequest(
            request_id=self._peers.new_id(), key=self._build_key(number), judgement=record
        )
        await self._peers.leaderboard.RecordJudgement(request)

    def _build_key(self, number: int) -> board.RoundKey:
        return board.RoundKey(execution_id=self._plan.execution_id, team_id=self._team.team_id, round_number=number)

    async def _deliver_event(self, state: rounds.RoundState, submission: trajectory.Trajectory) -> None:
        """Deliver the event of a round. A failed delivery changes nothing (G-54)."""
        event = rounds.RoundFinished(
            team_id=self._team.team_id, team_name=self._team.team_name, round=state, trajectory=submission
        )
        try:
            await self._deliver(event)
        except Exception as failure:
            log.warning("event not delivered", team=self._team.team_id, round=state.round_number, exc_info=failure)

    def _limit_time(self, name: str, work: str) -> AbstractAsyncContextManager[None]:
        return self._time_limit(getattr(self._plan, name).ToTimedelta().total_seconds(), work, name)

    @asynccontextmanager
    async def _time_limit(self, seconds: float, work: str, name: str) -> AsyncIterator[None]:
        """Run a block with a timeout (G-62). Raises DeadlineExceeded with the name of the limit."""
        try:
            async with self._peers.limit(seconds):
                yield
        except DeadlineExceeded:
            raise
        except TimeoutError as error:
            raise DeadlineExceeded(f"{work} took longer than {name} ({seconds:g} s)") from error


def _build_prompt_state(state: rounds.RoundState) -> RoundState:
    """Return a round in the form of the prompt builder, its scores in the shape of V-69."""
    metrics = [
        {"metric_name": metric.metric_name, "score": metric.score, "evaluator_comment": metric.evaluator_comment}
        for metric in state.score_details.metrics
    ]
    judgment = state.improvement_judgment
    return RoundState(
        round_number=state.round_number,
        submission_content=state.submission_content,
        evaluation_score=state.evaluation_score,
        score_details={"overall_score": state.score_details.overall_score, "metrics": metrics},
        improvement_judgment=ImprovementJudgment(
            should_continue=judgment.should_continue,
            reasoning=judgment.reasoning,
            confidence_score=judgment.confidence_score,
        )
        if state.HasField("improvement_judgment")
        else None,
        round_started_at=state.round_started_at.ToDatetime(UTC),
        round_ended_at=state.round_ended_at.ToDatetime(UTC),
    )


def _read_text(failure: Exception) -> str:
    return str(failure) or type(failure).__name__
