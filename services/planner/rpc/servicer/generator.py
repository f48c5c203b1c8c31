"""GeneratorService: a query is answered from the bullets that were found for it."""

from __future__ import annotations

from typing import Any

from hansei.planner.v1 import generator_service_pb2 as pb
from hansei.planner.v1 import generator_service_pb2_grpc as rpc
from services.planner.rpc.convert.generation import question_of, response_of
from services.planner.usecases.generate import GeneratorAgent


class GeneratorServicer(rpc.GeneratorServiceServicer):
    """Answers with the generator."""

    def __init__(self, generator: GeneratorAgent) -> None:
        self._generator = generator

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> pb.GenerateResponse:
        """Answers a query; a failed model call comes back as a trajectory with status FAILURE (P-121)."""
        return response_of(await self._generator.generate(question_of(request)))
