"""The services behind the gateway as the chains call them; the generated stubs of the contract satisfy these ports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.evidence.v1 import archive_service_pb2 as archive
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.planner.v1 import generator_service_pb2 as generator
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.search.v1 import search_service_pb2 as search
from hansei.validator.v1 import evaluator_service_pb2 as evaluator
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard

Limit = Callable[[float], AbstractAsyncContextManager[object]]
"""Ends its block with TimeoutError after a number of seconds; `asyncio.timeout` is one."""


class Playbooks(Protocol):
    """The playbooks of the curator."""

    def GetDataset(self, request: playbook.GetDatasetRequest, /) -> Awaitable[playbook.GetDatasetResponse]:
        """Return the head of a dataset."""


class CuratorPort(Protocol):
    """The curator."""

    def PrepareCuration(self, request: curator.PrepareCurationRequest, /) -> Awaitable[curator.PrepareCurationResponse]:
        """Return the committed curation of a request, else the bullets that were served."""

    def Curate(self, request: curator.CurateRequest, /) -> Awaitable[curator.CurateResponse]:
        """Commit the lessons of a reflection."""


class ReflectorPort(Protocol):
    """The reflector."""

    def Reflect(self, request: reflector.ReflectRequest, /) -> Awaitable[reflector.ReflectResponse]:
        """Return the lessons of a trajectory."""


class TrajectoryArchive(Protocol):
    """The way to the archive of trajectories."""

    async def add(self, request: archive.StoreTrajectoryRequest) -> None:
        """Store a trajectory for a later delivery to the archive. Raises nothing."""


class BulletSearch(Protocol):
    """The search service."""

    def Search(self, request: search.SearchRequest, /) -> Awaitable[search.SearchResponse]:
        """Return ranked bullets."""


class BulletRecall(Protocol):
    """The evidence service."""

    def Recall(self, request: evidence.RecallRequest, /) -> Awaitable[evidence.RecallResponse]:
        """Return the bullets for a query of a session."""


class Generator(Protocol):
    """The generator, served by the planner."""

    def Generate(self, request: generator.GenerateRequest, /) -> Awaitable[generator.GenerateResponse]:
        """Return the trajectory of an answer; a failed model call is a failed trajectory."""


class EvaluatorPort(Protocol):
    """The evaluator, served by the validator."""

    def Evaluate(self, request: evaluator.EvaluateRequest, /) -> Awaitable[evaluator.EvaluateResponse]:
        """Return the scores of a submission."""

    def DecideRound(self, request: evaluator.DecideRoundRequest, /) -> Awaitable[evaluator.DecideRoundResponse]:
        """Return whether a team continues after a round."""


class LeaderboardPort(Protocol):
    """The leaderboard, served by the validator."""

    def UpsertLeaderboardEntry(
        self, request: leaderboard.UpsertLeaderboardEntryRequest, /
    ) -> Awaitable[leaderboard.UpsertLeaderboardEntryResponse]:
        """Write the row of a round."""

    def RecordJudgement(
        self, request: leaderboard.RecordJudgementRequest, /
    ) -> Awaitable[leaderboard.RecordJudgementResponse]:
        """Write the judgement of a round."""

    def GetRanking(self, request: leaderboard.GetRankingRequest, /) -> Awaitable[leaderboard.GetRankingResponse]:
        """Return the teams of an execution, best first."""
