"""The workflow: load the playbook, search it, generate an answer (G-32 to G-39)."""

from __future__ import annotations

from dataclasses import dataclass

from chassis.errors import Unavailable
from gateway.orchestrator.ports import Generator, Playbooks, Search
from hansei.planner.v1 import generator_service_pb2 as generation
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from hansei.search.v1 import search_pb2
from hansei.search.v1 import search_service_pb2 as search_service

DEFAULT_DATASET = "appworld"


class GenerationFailed(Unavailable):
    """The model gave no answer; the message is the generator's own (G-21)."""

    reason = "GENERATION_FAILED"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, of which dataset, and how old the playbook may be."""

    query: str
    dataset: str
    min_revision: int = 0
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An answer with what led to it."""

    trajectory: trajectory.Trajectory
    results: list[search_pb2.SearchResult]
    model: str
    revision: int


@dataclass(frozen=True, slots=True)
class ReflectionWorkflow:
    """Three nodes in a fixed order; an error in one ends the run (G-38)."""

    playbooks: Playbooks
    search: Search
    generator: Generator

    async def run(self, question: Question, style: generation.GenerateStyle.ValueType) -> Attempt:
        """The attempt, whether the generator succeeded or not."""
        revision = await self._load_playbook(question)
        found = await self._search(question, revision)
        return await self._generate(question, found, style)

    async def answer(self, question: Question) -> Attempt:
        """The attempt in style plain. Raises GenerationFailed when there is no answer (G-21, G-35)."""
        attempt = await self.run(question, generation.GENERATE_STYLE_PLAIN)
        if attempt.trajectory.status == trajectory.TRAJECTORY_STATUS_FAILURE:
            raise GenerationFailed(attempt.trajectory.error_message)
        return attempt

    async def _load_playbook(self, question: Question) -> int:
        """The playbook's newest revision: what search must have before it answers, so that readers see what they wrote.

        Its bullets stay where they are: search holds the same ones.
        """
        head = await self.playbooks.GetDataset(playbook.GetDatasetRequest(dataset=question.dataset))
        return max(head.dataset.revision, question.min_revision)

    async def _search(self, question: Question, revision: int) -> search_service.SearchResponse:
        return await self.search.Search(
            search_service.SearchRequest(
                dataset=question.dataset,
                query=search_pb2.SearchQuery(query_text=question.query),
                min_revision=revision,
            )
        )

    async def _generate(
        self, question: Question, found: search_service.SearchResponse, style: generation.GenerateStyle.ValueType
    ) -> Attempt:
        answered = await self.generator.Generate(
            generation.GenerateRequest(
                query=question.query,
                dataset=question.dataset,
                bullets=[result.bullet for result in found.results],
                style=style,
                instruction=question.instruction,
            )
        )
        return Attempt(answered.trajectory, list(found.results), answered.model, found.revision)
