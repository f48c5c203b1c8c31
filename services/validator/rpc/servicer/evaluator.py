"""EvaluatorService: submissions are scored, judged and compared."""

from __future__ import annotations

from typing import Any

from hansei.validator.v1 import evaluator_service_pb2 as pb
from hansei.validator.v1 import evaluator_service_pb2_grpc as rpc
from services.validator.rpc.convert.evaluation import (
    comparison_message,
    comparison_of,
    decision_message,
    judgment_message,
    ranking_message,
    ranking_options_of,
    request_of,
    result_message,
    rules_of,
    task_of,
)
from services.validator.usecases.compare import DEFAULT_MAX_COMPARISONS, CompareSubmissions, ranked
from services.validator.usecases.decide_round import DecideRound
from services.validator.usecases.evaluate import Evaluator
from services.validator.usecases.judge import JudgmentClient


class EvaluatorServicer(rpc.EvaluatorServiceServicer):
    """Scores, judges and compares submissions."""

    def __init__(self, evaluator: Evaluator, judge: JudgmentClient, compare: CompareSubmissions) -> None:
        self._evaluator = evaluator
        self._judge = judge
        self._decide_round = DecideRound(judge)
        self._compare = compare

    async def Evaluate(self, request: pb.EvaluateRequest, context: Any) -> pb.EvaluateResponse:
        """Scores one submission by all metrics."""
        result = await self._evaluator.evaluate(request_of(request))
        return pb.EvaluateResponse(result=result_message(result))

    async def Judge(self, request: pb.JudgeRequest, context: Any) -> pb.JudgeResponse:
        """Asks whether another round is worthwhile."""
        model = request.model if request.HasField("model") else None
        judgment = await self._judge.judge_improvement_prospects(request.formatted_prompt, model)
        return pb.JudgeResponse(judgment=judgment_message(judgment))

    async def DecideRound(self, request: pb.DecideRoundRequest, context: Any) -> pb.DecideRoundResponse:
        """Decide whether a team goes on after a round."""
        prompt = request.formatted_prompt if request.HasField("formatted_prompt") else None
        model = request.model if request.HasField("model") else None
        return decision_message(await self._decide_round(rules_of(request), request.round_number, prompt, model))

    async def CompareSubmissions(
        self, request: pb.CompareSubmissionsRequest, context: Any
    ) -> pb.CompareSubmissionsResponse:
        """Compares submissions in pairs and ranks the contestants."""
        tournament = await self._compare(
            [task_of(task) for task in request.tasks],
            ranking_options_of(request.ranking),
            request.model if request.HasField("model") else None,
            request.max_comparisons or DEFAULT_MAX_COMPARISONS,
        )
        return pb.CompareSubmissionsResponse(
            comparisons=[comparison_message(comparison) for comparison in tournament.comparisons],
            ranking=None if tournament.ranking is None else ranking_message(tournament.ranking),
            not_ranked_because=tournament.not_ranked_because,
        )

    async def RankComparisons(self, request: pb.RankComparisonsRequest, context: Any) -> pb.RankComparisonsResponse:
        """Ranks contestants from given comparisons."""
        comparisons = [comparison_of(comparison) for comparison in request.comparisons]
        ranking = await ranked(comparisons, ranking_options_of(request.options))
        return pb.RankComparisonsResponse(ranking=ranking_message(ranking))
