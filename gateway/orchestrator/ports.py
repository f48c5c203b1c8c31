"""What the chains call: the services behind the gateway, by the messages of their contracts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.planner.v1 import generator_service_pb2 as generator
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.search.v1 import search_service_pb2 as search
from hansei.validator.v1 import evaluator_service_pb2 as evaluator
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard

Limit = Callable[[float], AbstractAsyncContextManager[object]]
"""Ends its block with TimeoutError after so many seconds; `asyncio.timeout` is one."""


class Playbooks(Protocol):
    """The playbooks of the curator, as the workflow reads them."""

    async def dataset(self, request: playbook.GetDatasetRequest) -> playbook.GetDatasetResponse:
        """Return the head of a dataset."""
        ...


class Curator(Protocol):
    """The curator, as learning calls it."""

    async def curate(self, request: curator.CurateRequest) -> curator.CurateResponse:
        """Commit what was learned."""
        ...

    async def prepare(self, request: curator.PrepareCurationRequest) -> curator.PrepareCurationResponse:
        """Return the committed curation of a request, else the bullets that were served."""
        ...


class Reflector(Protocol):
    """The reflector."""

    async def reflect(self, request: reflector.ReflectRequest) -> reflector.ReflectResponse:
        """Return the lessons of a trajectory."""
        ...


class Search(Protocol):
    """The search service."""

    async def search(self, request: search.SearchRequest) -> search.SearchResponse:
        """Return ranked bullets."""
        ...


class Generator(Protocol):
    """The generator, served by the planner."""

    async def generate(self, request: generator.GenerateRequest) -> generator.GenerateResponse:
        """Return the trajectory of an answer; a model call that failed is a trajectory that failed."""
        ...


class Evaluator(Protocol):
    """The evaluator, served by the validator."""

    async def evaluate(self, request: evaluator.EvaluateRequest) -> evaluator.EvaluateResponse:
        """Return the scores of a submission."""
        ...

    async def decide(self, request: evaluator.DecideRoundRequest) -> evaluator.DecideRoundResponse:
        """Return whether a team goes on after a round."""
        ...


class Leaderboard(Protocol):
    """The leaderboard, served by the validator."""

    async def upsert(
        self, request: leaderboard.UpsertLeaderboardEntryRequest
    ) -> leaderboard.UpsertLeaderboardEntryResponse:
        """Write the row of a round."""
        ...

    async def record_judgement(
        self, request: leaderboard.RecordJudgementRequest
    ) -> leaderboard.RecordJudgementResponse:
        """Write the judgement of a round."""
        ...

    async def ranking(self, request: leaderboard.GetRankingRequest) -> leaderboard.GetRankingResponse:
        """Return the teams of an execution, best first."""
        ...
