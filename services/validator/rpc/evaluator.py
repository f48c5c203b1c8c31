"""EvaluatorService: submissions are scored, judged and compared."""

from __future__ import annotations

from typing import Any

from chassis.errors import Unimplemented
from hansei.validator.v1 import evaluator_service_pb2 as pb
from hansei.validator.v1 import evaluator_service_pb2_grpc as rpc


class EvaluatorServicer(rpc.EvaluatorServiceServicer):
    """EvaluatorService: submissions are scored, judged and compared."""

    async def Evaluate(self, request: pb.EvaluateRequest, context: Any) -> pb.EvaluateResponse:
        """Not in this build yet."""
        raise Unimplemented("Evaluate is not in this build")

    async def Judge(self, request: pb.JudgeRequest, context: Any) -> pb.JudgeResponse:
        """Not in this build yet."""
        raise Unimplemented("Judge is not in this build")

    async def CompareSubmissions(
        self, request: pb.CompareSubmissionsRequest, context: Any
    ) -> pb.CompareSubmissionsResponse:
        """Not in this build yet."""
        raise Unimplemented("CompareSubmissions is not in this build")

    async def RankComparisons(self, request: pb.RankComparisonsRequest, context: Any) -> pb.RankComparisonsResponse:
        """Not in this build yet."""
        raise Unimplemented("RankComparisons is not in this build")
