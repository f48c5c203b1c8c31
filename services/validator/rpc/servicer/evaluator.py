"""EvaluatorService: scores, judges and compares submissions."""

from __future__ import annotations

from typing import Any

from chassis.server.messages import encode
from hansei.validator.v1 import evaluation_pb2
from hansei.validator.v1 import evaluator_service_pb2 as pb
from hansei.validator.v1 import evaluator_service_pb2_grpc as rpc
from libs.llm.usage import collect_usage, encode_usage
from services.validator.rpc.convert.evaluation import (
    decode_comparison,
    decode_evaluation_request,
    decode_ranking_options,
    decode_round_rules,
    decode_task,
    encode_comparison,
    encode_decision,
)
from services.validator.usecases.compare import DEFAULT_MAX_COMPARISONS, CompareSubmissions, RankComparisons
from services.validator.usecases.decide_round import DecideRound
from services.validator.usecases.evaluate import Evaluator
from services.validator.usecases.judge import JudgmentClient


class EvaluatorServicer(rpc.EvaluatorServiceServicer):
    """Scores, judges and compares submissions."""

    def __init__(
        self, evaluator: Evaluator, judge: JudgmentClient, compare: CompareSubmissions, rank: RankComparisons
    ) -> None:
        self._evaluator = evaluator
        self._judge = judge
        self._decide_round = DecideRound(judge)
        self._compare = compare
        self._rank = rank

    async def Evaluate(self, request: pb.EvaluateRequest, context: Any) -> pb.EvaluateResponse:
        """Score one submission by all metrics."""
        with collect_usage() as usage:
            result = await self._evaluator.evaluate(decode_evaluation_request(request))
        return pb.EvaluateResponse(result=encode(result, evaluation_pb2.EvaluationResult), usage=encode_usage(usage))

    async def Judge(self, request: pb.JudgeRequest, context: Any) -> pb.JudgeResponse:
        """Judge the prospects of another round."""
        model = request.model if request.HasField("model") else None
        with collect_usage() as usage:
            judgment = await self._judge.judge_improvement_prospects(request.formatted_prompt, model)
        return pb.JudgeResponse(
            judgment=encode(judgment, evaluation_pb2.ImprovementJudgment), usage=encode_usage(usage)
        )

    async def DecideRound(self, request: pb.DecideRoundRequest, context: Any) -> pb.DecideRoundResponse:
        """Decide whether a team continues after a round."""
        prompt = request.formatted_prompt if request.HasField("formatted_prompt") else None
        model = request.model if request.HasField("model") else None
        with collect_usage() as usage:
            decision = await self._decide_round(decode_round_rules(request), request.round_number, prompt, model)
        return encode_decision(decision, encode_usage(usage))

    async def CompareSubmissions(
        self, request: pb.CompareSubmissionsRequest, context: Any
    ) -> pb.CompareSubmissionsResponse:
        """Compare submissions in pairs and rank the contestants."""
        with collect_usage() as usage:
            tournament = await self._compare(
                [decode_task(task) for task in request.tasks],
                decode_ranking_options(request.ranking),
                request.model if request.HasField("model") else None,
                request.max_comparisons or DEFAULT_MAX_COMPARISONS,
            )
        comparisons = [encode_comparison(comparison) for comparison in tournament.comparisons]
        return encode(tournament, pb.CompareSubmissionsResponse, comparisons=comparisons, usage=encode_usage(usage))

    async def RankComparisons(self, request: pb.RankComparisonsRequest, context: Any) -> pb.RankComparisonsResponse:
        """Rank contestants from comparisons of the caller."""
        comparisons = [decode_comparison(comparison) for comparison in request.comparisons]
        ranking = await self._rank(comparisons, decode_ranking_options(request.options))
        return pb.RankComparisonsResponse(ranking=encode(ranking, evaluation_pb2.ComparisonRanking))
