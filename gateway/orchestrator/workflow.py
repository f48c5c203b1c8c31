"""The workflow: load the playbook, search it, generate an answer (G-32 to G-39)."""

from __future__ import annotations

from dataclasses import dataclass, field

from chassis.errors import Unavailable
from gateway.orchestrator.ports import BulletRecall, BulletSearch, Generator, Playbooks
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.planner.v1 import generator_service_pb2 as generation
from hansei.playbook.v1 import playbook_service_pb2 as playbooks_pb
from hansei.playbook.v1.usage_pb2 import ModelUsage
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from hansei.search.v1 import search_pb2
from hansei.search.v1 import search_service_pb2 as search_service

DEFAULT_DATASET = "appworld"
NOT_MEASURED = "the evidence service is unavailable; nothing is withheld or measured"


class GenerationFailed(Unavailable):
    """The model call failed; the message is the generator's (G-21)."""

    reason = "GENERATION_FAILED"


@dataclass(slots=True)
class WorkflowState:
    """The state of a run: the question, and the results of the nodes (G-33).

    `playbook` is the head of the dataset: search has the same bullets, so they are not loaded. `min_revision` is the
    lowest revision to answer from, `revision` the one that answered. The outcome of a `session_id` is reported under
    the `serving_id`; `note` says why nothing is measured.
    """

    query: str
    dataset: str
    min_revision: int = 0
    instruction: str = ""
    style: generation.GenerateStyle.ValueType = generation.GENERATE_STYLE_CITED
    session_id: str = ""
    playbook: playbooks_pb.Dataset | None = None
    search_results: list[search_pb2.SearchResult] = field(default_factory=list)
    revision: int = 0
    serving_id: str = ""
    note: str = ""
    trajectory: trajectory.Trajectory = field(default_factory=trajectory.Trajectory)
    model: str = ""
    usage: ModelUsage = field(default_factory=ModelUsage)

    @property
    def llm_response(self) -> str:
        """Return the answer, empty before it is generated."""
        return self.trajectory.generated_answer


@dataclass(frozen=True, slots=True)
class ReflectionWorkflow:
    """Three nodes in a fixed order; an error in one ends the workflow (G-32, G-38)."""

    playbooks: Playbooks
    search: BulletSearch
    recall: BulletRecall
    generator: Generator

    async def run(self, state: WorkflowState) -> WorkflowState:
        """Return the state after all nodes. A failure of the generator is in the state, and is not raised."""
        for node in (self._load_playbook, self._serve, self._generate):
            await node(state)
        return state

    async def answer(self, state: WorkflowState) -> WorkflowState:
        """Return the state after all nodes. Raises GenerationFailed without an answer (G-21, G-35)."""
        await self.run(state)
        if state.trajectory.status == trajectory.TRAJECTORY_STATUS_FAILURE:
            raise GenerationFailed(state.trajectory.error_message)
        return state

    async def _load_playbook(self, state: WorkflowState) -> None:
        """Read the newest revision of the playbook, so that search waits for it and readers see their own writes.

        A missing playbook is no error (G-36).
        """
        request = playbooks_pb.GetDatasetRequest(dataset=state.dataset, allow_missing=True)
        head = await self.playbooks.GetDataset(request)
        state.playbook = head.dataset
        state.min_revision = max(head.dataset.revision, state.min_revision)

    async def _serve(self, state: WorkflowState) -> None:
        """Serve the bullets of a session as the evidence service assigns them, else those of a search."""
        if not state.session_id:
            return await self._search(state)
        try:
            recalled = await self.recall.Recall(
                evidence.RecallRequest(
                    dataset=state.dataset,
                    session_id=state.session_id,
                    query_text=state.query,
                    min_revision=state.min_revision,
                    allow_missing=True,
                )
            )
        except Unavailable:
            state.note = NOT_MEASURED
            return await self._search(state)
        state.search_results, state.revision = list(recalled.results), recalled.revision
        state.serving_id, state.note = recalled.serving_id, recalled.note
        return None

    async def _search(self, state: WorkflowState) -> None:
        response = await self.search.Search(
            search_service.SearchRequest(
                dataset=state.dataset,
                query=search_pb2.SearchQuery(query_text=state.query, budget_tokens=0),
                min_revision=state.min_revision,
                allow_missing=True,
            )
        )
        state.search_results, state.revision = list(response.results), response.revision

    async def _generate(self, state: WorkflowState) -> None:
        generated = await self.generator.Generate(
            generation.GenerateRequest(
                query=state.query,
                dataset=state.dataset,
                bullets=[result.bullet for result in state.search_results],
                style=state.style,
                instruction=state.instruction,
            )
        )
        state.trajectory, state.model, state.usage = generated.trajectory, generated.model, generated.model_usage
