"""Evaluations, judgements and comparisons as protobuf messages."""

from __future__ import annotations

from hansei.validator.v1 import evaluation_pb2 as pb
from hansei.validator.v1 import evaluator_service_pb2 as service_pb
from libs.prompts.contexts import ImprovementJudgment
from services.validator.domain.comparisons import Comparison, ComparisonRanking, Preference, RankingOptions
from services.validator.domain.evaluation import (
    DEFAULT_METRICS,
    EvaluationConfig,
    EvaluationRequest,
    EvaluationResult,
    MetricConfig,
    MetricScore,
    SampledScore,
    Sampling,
)
from services.validator.domain.rounds import RoundDecision, RoundRules
from services.validator.usecases.compare import ComparisonTask, ContestantSubmission

PREFERENCES = {
    Preference.FIRST: pb.PREFERENCE_FIRST,
    Preference.SECOND: pb.PREFERENCE_SECOND,
    Preference.TIE: pb.PREFERENCE_TIE,
    Preference.UNMEASURED: pb.PREFERENCE_UNSPECIFIED,
}
_PREFERENCE_OF = {value: preference for preference, value in PREFERENCES.items()}
_SAMPLING = Sampling()
_CONFIG = EvaluationConfig()


def request_of(request: service_pb.EvaluateRequest) -> EvaluationRequest:
    """What is asked of an evaluation, with the defaults of the contract. Raises EvaluationInvalid."""
    sampling = _sampling_of(request.repeated_scoring) if request.HasField("repeated_scoring") else None
    return EvaluationRequest(
        request.user_query,
        request.submission,
        request.execution_id or None,
        request.team_id or None,
        request.round_number if request.HasField("round_number") else None,
        _config_of(request.config, sampling),
    )


def _config_of(config: pb.EvaluationConfig, sampling: Sampling | None) -> EvaluationConfig:
    return EvaluationConfig(
        tuple(_metric_of(metric) for metric in config.metrics) or DEFAULT_METRICS,
        config.model if config.HasField("model") else None,
        config.temperature if config.HasField("temperature") else _CONFIG.temperature,
        config.max_retries if config.HasField("max_retries") else _CONFIG.max_retries,
        config.timeout.ToTimedelta().total_seconds() if config.HasField("timeout") else _CONFIG.timeout_seconds,
        sampling,
    )


def _metric_of(metric: pb.MetricConfig) -> MetricConfig:
    return MetricConfig(
        metric.name,
        metric.metric,
        metric.weight if metric.HasField("weight") else None,
        metric.instruction if metric.HasField("instruction") else None,
        metric.model if metric.HasField("model") else None,
    )


def _sampling_of(scoring: pb.RepeatedScoring) -> Sampling:
    least = scoring.min_samples or _SAMPLING.min_samples
    most = scoring.max_samples or max(least, _SAMPLING.max_samples)
    return Sampling(min(least, most) if not scoring.min_samples else least, most, scoring.half_width or 5.0)


def result_message(result: EvaluationResult) -> pb.EvaluationResult:
    """An evaluation on the wire."""
    return pb.EvaluationResult(
        metrics=[_score_message(score) for score in result.metrics], overall_score=result.overall_score
    )


def _score_message(score: MetricScore) -> pb.MetricScore:
    return pb.MetricScore(
        metric_name=score.metric_name,
        score=score.score,
        evaluator_comment=score.evaluator_comment,
        sampled=None if score.sampled is None else _sampled_message(score.sampled),
    )


def _sampled_message(sampled: SampledScore) -> pb.SampledScore:
    return pb.SampledScore(
        samples=sampled.samples, unmeasured=sampled.unmeasured, lower=sampled.lower, upper=sampled.upper
    )


def result_of(result: pb.EvaluationResult) -> EvaluationResult:
    """An evaluation that a caller stores. Raises EvaluationInvalid."""
    scores = (MetricScore(score.metric_name, score.score, score.evaluator_comment) for score in result.metrics)
    return EvaluationResult(tuple(scores), result.overall_score)


def judgment_message(judgment: ImprovementJudgment) -> pb.ImprovementJudgment:
    """A judgement on the wire."""
    return pb.ImprovementJudgment(
        should_continue=judgment.should_continue,
        reasoning=judgment.reasoning,
        confidence_score=judgment.confidence_score,
    )


def rules_of(request: service_pb.DecideRoundRequest) -> RoundRules:
    """Return the rules of a request."""
    return RoundRules(request.min_rounds, request.max_rounds, request.judge_on_final_round)


def decision_message(decision: RoundDecision | None) -> service_pb.DecideRoundResponse:
    """Return the message of a decision; None is one that takes a judgement."""
    if decision is None:
        return service_pb.DecideRoundResponse(judgment_required=True)
    return service_pb.DecideRoundResponse(
        should_continue=not decision.exit_reason,
        exit_reason=decision.exit_reason,
        judgment=None if decision.judgment is None else judgment_message(decision.judgment),
    )


def task_of(task: service_pb.ComparisonTask) -> ComparisonTask:
    """A task to compare."""
    submissions = tuple(ContestantSubmission(item.id, item.content) for item in task.submissions)
    return ComparisonTask(task.task_id, task.user_query, submissions)


def ranking_options_of(options: pb.RankingOptions) -> RankingOptions:
    """What a ranking is fitted with."""
    level = options.confidence_level if options.HasField("confidence_level") else 0.95
    return RankingOptions(not options.without_position_term, not options.without_length_term, level)


def comparison_of(comparison: pb.Comparison) -> Comparison:
    """A comparison that a caller made. Raises ComparisonsInvalid."""
    return Comparison(
        comparison.first_id,
        comparison.second_id,
        _PREFERENCE_OF[comparison.preference],
        comparison.first_length,
        comparison.second_length,
        comparison.task_id,
    )


def comparison_message(comparison: Comparison) -> pb.Comparison:
    """A comparison on the wire."""
    return pb.Comparison(
        first_id=comparison.first_id,
        second_id=comparison.second_id,
        preference=PREFERENCES[comparison.preference],
        first_length=comparison.first_length,
        second_length=comparison.second_length,
        task_id=comparison.task_id,
    )


def ranking_message(ranking: ComparisonRanking) -> pb.ComparisonRanking:
    """A ranking on the wire."""
    return pb.ComparisonRanking(
        ratings=[
            pb.Rating(id=rating.id, strength=rating.strength, lower=rating.lower, upper=rating.upper, rank=rating.rank)
            for rating in ranking.ratings
        ],
        position_term=ranking.position_term,
        length_term=ranking.length_term,
        measured=ranking.measured,
        unmeasured=ranking.unmeasured,
    )
