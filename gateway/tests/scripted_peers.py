"""Peers of the chains that answer from a script and record their calls in order."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from chassis.errors import Unavailable
from gateway.orchestrator.rounds import Rounds
from gateway.orchestrator.workflow import ReflectionWorkflow
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.planner.v1 import generator_service_pb2 as generation
from hansei.playbook.v1 import playbook_pb2
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.playbook.v1.usage_pb2 import ModelUsage
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from hansei.search.v1 import search_pb2
from hansei.search.v1 import search_service_pb2 as search
from hansei.validator.v1 import evaluation_pb2 as evaluation
from hansei.validator.v1 import evaluator_service_pb2 as evaluator
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard
from libs.prompts.builder import UserPromptBuilder
from libs.prompts.contexts import ImprovementJudgment
from libs.prompts.settings import PromptBuilderSettings
from services.validator.rpc.convert.evaluation import decode_round_rules, encode_decision
from services.validator.usecases.decide_round import DecideRound

PROMPT = "How {x} and {{ y }}? ナレッジ"
EXECUTION = "execution-1"
USAGE = ModelUsage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.25)
"""The usage of each scripted call of a model."""

CONTINUE, STOP = True, False


def team(team_id: str = "t1", **fields: Any) -> rounds.Team:
    return rounds.Team(**{"team_id": team_id, "team_name": f"Team {team_id}", **fields})


def rounds_request(*teams: rounds.Team, **fields: Any) -> rounds.RunRoundsRequest:
    whole = {"user_prompt": PROMPT, "teams": teams or [team()], "execution_id": EXECUTION, **fields}
    return rounds.RunRoundsRequest(**whole)


Journal = list[tuple[str, Any]]


@dataclass
class Library:
    """Playbooks, search and generator. A generator's answer is `<team's instruction> <n>` unless `fails` says so."""

    journal: Journal = field(default_factory=list)
    fails: Callable[[generation.GenerateRequest, int], Exception | str | None] = lambda request, number: None
    hangs: Callable[[generation.GenerateRequest, int], bool] = lambda request, number: False
    answers: dict[str, itertools.count[int]] = field(default_factory=lambda: defaultdict(lambda: itertools.count(1)))

    async def GetDataset(self, request: playbook.GetDatasetRequest) -> playbook.GetDatasetResponse:
        return playbook.GetDatasetResponse(dataset=playbook.Dataset(revision=7))

    async def Search(self, request: search.SearchRequest) -> search.SearchResponse:
        self.journal.append(("search", request))
        bullet = playbook_pb2.Bullet(id="b-1", content=f"of {request.dataset}")
        return search.SearchResponse(results=[search_pb2.SearchResult(bullet=bullet)], revision=7)

    async def Recall(self, request: evidence.RecallRequest) -> evidence.RecallResponse:
        raise AssertionError("rounds are no sessions")

    async def Generate(self, request: generation.GenerateRequest) -> generation.GenerateResponse:
        sent = generation.GenerateRequest()
        sent.CopyFrom(request)
        self.journal.append(("generate", sent))
        number = next(self.answers[request.instruction])
        if self.hangs(request, number):
            await asyncio.Event().wait()
        failure = self.fails(request, number)
        if isinstance(failure, Exception):
            raise failure
        status = trajectory.TRAJECTORY_STATUS_SUCCESS if failure is None else trajectory.TRAJECTORY_STATUS_FAILURE
        attempt = trajectory.Trajectory(
            query=request.query,
            generated_answer=f"{request.instruction} {number}",
            status=status,
            error_message=failure,
        )
        return generation.GenerateResponse(trajectory=attempt, model="scripted", model_usage=USAGE)


@dataclass
class Judges:
    """Scores per team by round, verdicts in order; a verdict that is an exception is raised."""

    scores: Mapping[str, Sequence[float | Exception]]
    verdicts: list[bool | Exception] = field(default_factory=list)
    journal: Journal = field(default_factory=list)
    hangs: Callable[[evaluator.DecideRoundRequest], bool] = lambda request: False

    async def Evaluate(self, request: evaluator.EvaluateRequest) -> evaluator.EvaluateResponse:
        self.journal.append(("evaluate", request))
        score = self.scores[request.team_id][request.round_number - 1]
        if isinstance(score, Exception):
            raise score
        metric = evaluation.MetricScore(metric_name="Coverage", score=score, evaluator_comment="{{ c }}")
        result = evaluation.EvaluationResult(metrics=[metric], overall_score=score)
        return evaluator.EvaluateResponse(result=result, usage=USAGE)

    async def DecideRound(self, request: evaluator.DecideRoundRequest) -> evaluator.DecideRoundResponse:
        """Decide by the validator's rules, and record the prompt of the judge."""
        prompt = request.formatted_prompt if request.HasField("formatted_prompt") else None
        decision = await DecideRound(_Judge(self, request))(
            decode_round_rules(request), request.round_number, prompt, request.model
        )
        return encode_decision(decision, USAGE if prompt else ModelUsage())


@dataclass
class _Judge:
    judges: Judges
    request: evaluator.DecideRoundRequest

    async def judge_improvement_prospects(self, formatted_prompt: str, model: str | None = None) -> ImprovementJudgment:
        judges = self.judges
        judges.journal.append(("judge", self.request))
        if judges.hangs(self.request):
            await asyncio.Event().wait()
        verdict = judges.verdicts.pop(0) if judges.verdicts else CONTINUE
        if isinstance(verdict, Exception):
            raise verdict
        return ImprovementJudgment(should_continue=verdict, reasoning="why", confidence_score=0.75)


@dataclass
class Board:
    """The leaderboard of one execution, in memory, ranked as V-70 says."""

    journal: Journal = field(default_factory=list)
    fails: Callable[[str, Any], Exception | None] = lambda kind, request: None
    rows: dict[tuple[str, int], leaderboard.LeaderBoardEntry] = field(default_factory=dict)
    judgements: dict[tuple[str, int], list[leaderboard.JudgementRecord]] = field(
        default_factory=lambda: defaultdict(list)
    )
    request_ids: list[str] = field(default_factory=list)

    async def UpsertLeaderboardEntry(
        self, request: leaderboard.UpsertLeaderboardEntryRequest
    ) -> leaderboard.UpsertLeaderboardEntryResponse:
        self._note("row", request)
        self.rows[request.entry.key.team_id, request.entry.key.round_number] = request.entry
        self.request_ids.append(request.request_id)
        own = [row for (team_id, _), row in self.rows.items() if team_id == request.entry.key.team_id]
        best = max(own, key=lambda row: (row.score, row.key.round_number))
        number = best.key.round_number
        return leaderboard.UpsertLeaderboardEntryResponse(entry=request.entry, best_round_number=number)

    async def RecordJudgement(self, request: leaderboard.RecordJudgementRequest) -> leaderboard.RecordJudgementResponse:
        self._note("judgement", request)
        self.judgements[request.key.team_id, request.key.round_number].append(request.judgement)
        self.request_ids.append(request.request_id)
        return leaderboard.RecordJudgementResponse()

    async def GetRanking(self, request: leaderboard.GetRankingRequest) -> leaderboard.GetRankingResponse:
        self._note("ranking", request)
        scores = defaultdict(list)
        for (team_id, _), row in self.rows.items():
            scores[team_id].append(row.score)
        best_first = sorted(scores.items(), key=lambda item: (-max(item[1]), item[0]))
        return leaderboard.GetRankingResponse(
            rows=[
                leaderboard.RankingRow(
                    rank=rank,
                    team_id=team_id,
                    team_name=f"Team {team_id}",
                    max_score=max(of_team),
                    total_rounds=len(of_team),
                )
                for rank, (team_id, of_team) in enumerate(best_first, 1)
            ]
        )

    def _note(self, kind: str, request: Any) -> None:
        self.journal.append((kind, request))
        failure = self.fails(kind, request)
        if failure is not None:
            raise failure

    def finals(self, team_id: str) -> list[int]:
        """Numbers of the final rows of a team."""
        return [number for (owner, number), row in self.rows.items() if owner == team_id and row.final_submission]


@dataclass
class Stage:
    """Everything rounds need, around one journal. A limit of `expires` seconds is over at once."""

    scores: Mapping[str, Sequence[float | Exception]]
    verdicts: list[bool | Exception] = field(default_factory=list)
    expires: float | None = None

    def __post_init__(self) -> None:
        self.journal: Journal = []
        self.library = Library(self.journal)
        self.judges = Judges(self.scores, self.verdicts, self.journal)
        self.board = Board(self.journal)
        self.limits: list[float] = []
        self.moments = itertools.count()
        ids = itertools.count()
        self.rounds = Rounds(
            workflow=ReflectionWorkflow(self.library, self.library, self.library, self.library),
            evaluator=self.judges,
            leaderboard=self.board,
            prompts=UserPromptBuilder(PromptBuilderSettings(), lambda: "2026-01-02T03:04:05+00:00"),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(self.moments)),
            new_id=lambda: f"id-{next(ids)}",
            limit=self._limit,
        )

    @asynccontextmanager
    async def _limit(self, seconds: float) -> AsyncIterator[None]:
        self.limits.append(seconds)
        async with asyncio.timeout(0 if seconds == self.expires else None):
            yield

    async def run(self, request: rounds.RunRoundsRequest) -> rounds.RoundsResult:
        """The result; events are in `self.events`."""
        self.events: list[rounds.RoundFinished] = []
        async for event in self.rounds.events(request):
            if event.HasField("result"):
                return event.result
            self.events.append(event.round_finished)
        raise AssertionError("no result came")

    def requests_of(self, kind: str) -> list[Any]:
        """Return the requests of a kind, in order."""
        return [what for name, what in self.journal if name == kind]


def unavailable(text: str = "the model is away") -> Unavailable:
    return Unavailable(text)
