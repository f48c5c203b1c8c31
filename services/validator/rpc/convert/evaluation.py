"""Conversion between messages and evaluations, judgements and comparisons."""

from __future__ import annotations

from chassis.server.messages import decode, encode
from hansei.playbook.v1.usage_pb2 import ModelUsage
from hansei.validator.v1 import evaluation_pb2 as pb
from hansei.validator.v1 import evaluator_service_pb2 as service_pb
from services.validator.domain.comparisons import Comparison, Preference, RankingOptions
from services.validator.domain.evaluation import (
    DEFAULT_METRICS,
    EvaluationConfig,
    EvaluationRequest,
    EvaluationResult,
    MetricConfig,
    MetricScore,
    Sampling,
)
from services.validator.domain.rounds import RoundDecision, RoundRules
from services.validator.usecases.compare import ComparisonTask, ContestantSubmission

_PREFERENCES = {
    pb.PREFERENCE_FIRST: Preference.FIRST,
    pb.PREFERENCE_SECOND: Preference.SECOND,
    pb.PREFERENCE_TIE: Preference.TIE,
    pb.PREFERENCE_UNSPECIFIED: Preference.UNMEASURED,
}
_SAMPLING = Sampling()


def decode_evaluation_request(request: service_pb.EvaluateRequest) -> EvaluationRequest:
    """Return the evaluation that a request asks for, with the defaults of the contract. Raises EvaluationInvalid."""
    sampling = _decode_sampling(request.repeated_scoring) if request.HasField("repeated_scoring") else None
    return EvaluationRequest(
        request.user_query,
        request.submission,
        request.execution_id or None,
        request.team_id or None,
        request.round_number if request.HasField("round_number") else None,
        _decode_config(request.config, sampling),
    )


def _decode_config(config: pb.EvaluationConfig, sampling: Sampling | None) -> EvaluationConfig:
    fields = {name: value for name, value in decode(config).items() if value is not None}
    if fields.pop("timeout", None) is not None:
        fields["timeout_seconds"] = config.timeout.ToTimedelta().total_seconds()
    metrics = tuple(MetricConfig(**metric) for metric in fields.pop("metrics"))
    return EvaluationConfig(metrics or DEFAULT_METRICS, sampling=sampling, **fields)


def _decode_sampling(scoring: pb.RepeatedScoring) -> Sampling:
    least = scoring.min_samples or _SAMPLING.min_samples
    most = scoring.max_samples or max(least, _SAMPLING.max_samples)
    least = least if scoring.min_samples else min(least, most)
    return Sampling(least, most, scoring.half_width or _SAMPLING.half_width)


def decode_result(result: pb.EvaluationResult) -> EvaluationResult:
    """Decode an evaluation that a caller wants to store. Raises EvaluationInvalid."""
    scores = (MetricScore(score.metric_name, score.score, score.evaluator_comment) for score in result.metrics)
    return EvaluationResult(tuple(scores), result.overall_score)


def decode_round_rules(request: service_pb.DecideRoundRequest) -> RoundRules:
    """Return the rules of a request."""
    return RoundRules(request.min_rounds, request.max_rounds, request.judge_on_final_round)


def encode_decision(decision: RoundDecision | None, usage: ModelUsage) -> service_pb.DecideRoundResponse:
    """Return the message of a decision with its usage; None means that a judgement is required."""
    if decision is None:
        return service_pb.DecideRoundResponse(judgment_required=True, usage=usage)
    return encode(decision, service_pb.DecideRoundResponse, should_continue=not decision.exit_reason, usage=usage)


def decode_task(task: service_pb.ComparisonTask) -> ComparisonTask:
    """Return a task to compare."""
    submissions = tuple(ContestantSubmission(item.id, item.content) for item in task.submissions)
    return ComparisonTask(task.task_id, task.user_query, submissions)


def decode_ranking_options(options: pb.RankingOptions) -> RankingOptions:
    """Return the options of a ranking."""
    level = options.confidence_level if options.HasField("confidence_level") else 0.95
    return RankingOptions(not options.without_position_term, not options.without_length_term, level)


def decode_comparison(comparison: pb.Comparison) -> Comparison:
    """Return a comparison that a caller made. Raises ComparisonsInvalid."""
    return Comparison(**decode(comparison) | {"preference": _PREFERENCES[comparison.preference]})


def encode_comparison(comparison: Comparison) -> pb.Comparison:
    """Return the message of a comparison."""
    is_measured = comparison.preference is not Preference.UNMEASURED
    return encode(comparison, pb.Comparison, preference=comparison.preference if is_measured else None)
