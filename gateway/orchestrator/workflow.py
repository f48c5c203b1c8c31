"""The workflow: load the playbook, search it, generate an answer (G-32 to G-39)."""

from __future__ import annotations

from dataclasses import dataclass

from chassis.errors import Unavailable
from gateway.orchestrator.ports import BulletSearch, Generator, Playbooks
from hansei.planner.v1 import generator_service_pb2 as generation
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from hansei.search.v1 import search_pb2
from hansei.search.v1 import search_service_pb2 as search_service

DEFAULT_DATASET = "appworld"


class GenerationFailed(Unavailable):
    """The model call failed; the message is the generator's (G-21)."""

    reason = "GENERATION_FAILED"


@dataclass(frozen=True, slots=True)
class WorkflowQuestion:
    """A question, its dataset, and the lowest revision of the playbook to answer from."""

    query: str
    dataset: str
    min_revision: int = 0
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class AnswerAttempt:
    """An answer with the search results, the model and the revision behind it."""

    trajectory: trajectory.Trajectory
    results: list[search_pb2.SearchResult]
    model: str
    revision: int


@dataclass(frozen=True, slots=True)
class ReflectionWorkflow:
    """Three nodes in a fixed order; an error in one ends the workflow (G-38)."""

    playbooks: Playbooks
    search: BulletSearch
    generator: Generator

    async def run(self, question: WorkflowQuestion, style: generation.GenerateStyle.ValueType) -> AnswerAttempt:
        """Return the attempt, also if the generator failed."""
        revision = await self._load_playbook(question)
        search_response = await self._search(question, revision)
        return await self._generate(question, search_response, style)

    async def answer(self, question: WorkflowQuestion) -> AnswerAttempt:
        """Return the attempt in style plain. Raises GenerationFailed without an answer (G-21, G-35)."""
        attempt = await self.run(question, generation.GENERATE_STYLE_PLAIN)
        if attempt.trajectory.status == trajectory.TRAJECTORY_STATUS_FAILURE:
            raise GenerationFailed(attempt.trajectory.error_message)
        return attempt

    async def _load_playbook(self, question: WorkflowQuestion) -> int:
        """Return the newest revision of the playbook, so that search waits for it and readers see their own writes.

        The bullets are not loaded, because search has the same ones.
        """
        head = await self.playbooks.GetDataset(playbook.GetDatasetRequest(dataset=question.dataset))
        return max(head.dataset.revision, question.min_revision)

    async def _search(self, question: WorkflowQuestion, revision: int) -> search_service.SearchResponse:
        return await self.search.Search(
            search_service.SearchRequest(
                dataset=question.dataset,
                query=search_pb2.SearchQuery(query_text=question.query),
                min_revision=revision,
            )
        )

    async def _generate(
        self,
        question: WorkflowQuestion,
        search_response: search_service.SearchResponse,
        style: generation.GenerateStyle.ValueType,
    ) -> AnswerAttempt:
        generated = await self.generator.Generate(
            generation.GenerateRequest(
                query=question.query,
                dataset=question.dataset,
                bullets=[result.bullet for result in search_response.results],
                style=style,
                instruction=question.instruction,
            )
        )
        return AnswerAttempt(
            generated.trajectory, list(search_response.results), generated.model, search_response.revision
        )
