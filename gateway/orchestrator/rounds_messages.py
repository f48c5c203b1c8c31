"""Rounds between the messages of the contracts and what prompts are built from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.validator.v1 import evaluation_pb2 as evaluation
from libs.prompts.contexts import ImprovementJudgment, RoundState


def score_details_of(result: evaluation.EvaluationResult) -> dict[str, Any]:
    """Scores in the shape that rounds write (V-69)."""
    metrics = [
        {"metric_name": each.metric_name, "score": each.score, "evaluator_comment": each.evaluator_comment}
        for each in result.metrics
    ]
    return {"overall_score": result.overall_score, "metrics": metrics}


def scores_message(details: Mapping[str, Any]) -> evaluation.EvaluationResult:
    """The opposite of `score_details_of`."""
    return evaluation.EvaluationResult(
        overall_score=details["overall_score"],
        metrics=[evaluation.MetricScore(**metric) for metric in details["metrics"]],
    )


def judgment_of(message: evaluation.ImprovementJudgment) -> ImprovementJudgment:
    """A judge's answer."""
    return ImprovementJudgment(
        should_continue=message.should_continue,
        reasoning=message.reasoning,
        confidence_score=message.confidence_score,
    )


def round_message(state: RoundState) -> rounds.RoundState:
    """A round on the wire."""
    judgment = state.improvement_judgment
    return rounds.RoundState(
        round_number=state.round_number,
        submission_content=state.submission_content,
        evaluation_score=state.evaluation_score,
        score_details=scores_message(state.score_details),
        improvement_judgment=None if judgment is None else evaluation.ImprovementJudgment(**judgment.model_dump()),
        round_started_at=_timestamp(state.round_started_at),
        round_ended_at=_timestamp(state.round_ended_at),
    )


def _timestamp(moment: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(moment)
    return message
