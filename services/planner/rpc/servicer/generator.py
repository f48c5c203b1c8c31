"""Serve GeneratorService: answer a query from retrieved bullets."""

from __future__ import annotations

from typing import Any

from hansei.planner.v1 import generator_service_pb2 as pb
from hansei.planner.v1 import generator_service_pb2_grpc as rpc
from libs.llm.usage import collect_usage
from services.planner.rpc.convert.generation import decode_question, encode_outcome
from services.planner.usecases.generate import GeneratorAgent


class GeneratorServicer(rpc.GeneratorServiceServicer):
    """Serve the generator."""

    def __init__(self, generator: GeneratorAgent) -> None:
        self._generator = generator

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> pb.GenerateResponse:
        """Answer a query; a failed model call gives a trajectory with status FAILURE (P-121)."""
        with collect_usage() as usage:
            outcome = await self._generator.generate(decode_question(request))
        return encode_outcome(outcome, usage)
