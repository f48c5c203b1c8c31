"""GatewayService: learning, the workflow and answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from gateway.orchestrator.learn import Learning
from gateway.orchestrator.workflow import DEFAULT_DATASET, ReflectionWorkflow, WorkflowQuestion
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
        attempt = await self._workflow.answer(_question(request))
        return gateway.RunWorkflowResponse(
            llm_response=attempt.trajectory.generated_answer,
            search_results_count=len(attempt.results),
            search_results=attempt.results,
            model=attempt.model,
            revision=attempt.revision,
        )

    async def Answer(self, request: gateway.AnswerRequest, context: Any) -> gateway.AnswerResponse:
        """Answer a question with citations (G-39)."""
        attempt = await self._workflow.run(_question(request, request.instruction), generator.GENERATE_STYLE_CITED)
        return gateway.AnswerResponse(
            trajectory=attempt.trajectory,
            search_results=attempt.results,
            model=attempt.model,
            revision=attempt.revision,
        )


def _question(request: gateway.RunWorkflowRequest | gateway.AnswerRequest, instruction: str = "") -> WorkflowQuestion:
    dataset = request.dataset if request.HasField("dataset") else DEFAULT_DATASET
    return WorkflowQuestion(request.query, dataset, request.min_revision, instruction)
