"""GatewayService: learning, the workflow and answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from gateway.orchestrator.learn import Learning
from gateway.orchestrator.workflow import DEFAULT_DATASET, ReflectionWorkflow, WorkflowState
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.gateway.v1 import gateway_service_pb2_grpc as grpc_gateway
from hansei.planner.v1 import generator_service_pb2 as generator


class GatewayServicer(grpc_gateway.GatewayServiceServicer):
    """Serves learning and the workflow."""

    def __init__(self, learning: Learning, workflow: ReflectionWorkflow) -> None:
        self._learning = learning
        self._workflow = workflow

    async def Learn(self, request: gateway.LearnRequest, context: Any) -> gateway.LearnResponse:
        """Learn from a trajectory (G-40)."""
        return await self._learning.learn(request)

    async def LearnWithProgress(
        self, request: gateway.LearnWithProgressRequest, context: Any
    ) -> AsyncIterator[gateway.LearnWithProgressResponse]:
        """Learn from a trajectory, and yield each finished stage (G-40)."""
        async for stage, message, response in self._learning.stages(request.learn):
            yield gateway.LearnWithProgressResponse(stage=stage, message=message, response=response)

    async def RunWorkflow(self, request: gateway.RunWorkflowRequest, context: Any) -> gateway.RunWorkflowResponse:
        """Answer a question in style plain (G-32 to G-38)."""
        state = await self._workflow.answer(_start_state(request, style=generator.GENERATE_STYLE_PLAIN))
        return gateway.RunWorkflowResponse(
            llm_response=state.llm_response,
            search_results_count=len(state.search_results),
            search_results=state.search_results,
            model=state.model,
            revision=state.revision,
            usage=state.usage,
            serving_id=state.serving_id,
            note=state.note,
        )

    async def Answer(self, request: gateway.AnswerRequest, context: Any) -> gateway.AnswerResponse:
        """Answer a question with citations (G-39)."""
        state = await self._workflow.run(_start_state(request, instruction=request.instruction))
        return gateway.AnswerResponse(
            trajectory=state.trajectory,
            search_results=state.search_results,
            model=state.model,
            revision=state.revision,
            usage=state.usage,
            serving_id=state.serving_id,
            note=state.note,
        )


def _start_state(request: gateway.RunWorkflowRequest | gateway.AnswerRequest, **fields: Any) -> WorkflowState:
    """Return the state with which a request starts."""
    dataset = request.dataset if request.HasField("dataset") else DEFAULT_DATASET
    return WorkflowState(request.query, dataset, request.min_revision, session_id=request.session_id, **fields)
