"""Scores a submission by metrics, one after the other (spec section 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from libs.prompts.builder import UserPromptBuilder
from libs.prompts.language import LanguageSetting
from services.validator.domain.confidence_sequence import compute_mean_interval
from services.validator.domain.errors import EvaluatorAPIError
from services.validator.domain.evaluation import (
    EvaluationConfig,
    EvaluationRequest,
    EvaluationResult,
    MetricConfig,
    MetricScore,
    ModelId,
    SampledScore,
    Sampling,
    compute_overall_score,
    compute_weights,
)
from services.validator.usecases.judging import JudgeFailed, RetryingJudge
from services.validator.usecases.metrics import LLMJudgeMetric, find_metric
from services.validator.usecases.ports import JudgeCall


@dataclass(frozen=True, slots=True)
class _Task:
    """One metric to score: how it is configured, who judges it and with which call."""

    config: MetricConfig
    metric: LLMJudgeMetric
    call: JudgeCall


class Evaluator:
    """Scores submissions with the models of its judge."""

    def __init__(
        self, judge: RetryingJudge, prompts: UserPromptBuilder, default_model: str, language: LanguageSetting = "ja"
    ) -> None:
        self._judge = judge
        self._prompts = prompts
        self._default_model = default_model
        self._language: LanguageSetting = language

    async def evaluate(self, request: EvaluationRequest) -> EvaluationResult:
        """Return all scores; the first metric that fails raises EvaluatorAPIError (V-61).

        Raises also EvaluationInvalid, ModelIdInvalid.
        """
        config = request.config
        weights = compute_weights(config.metrics)
        tasks = [self._build_task(metric, config) for metric in config.metrics]
        scores = [await self._score(task, request, config.sampling) for task in tasks]
        return EvaluationResult(tuple(scores), compute_overall_score(scores, weights))

    def _build_task(self, metric: MetricConfig, config: EvaluationConfig) -> _Task:
        model = ModelId.parse(metric.model or config.model or self._default_model)
        call = JudgeCall(model, config.temperature, config.timeout_seconds, config.max_retries)
        return _Task(metric, find_metric(metric.built_in)(self._judge, self._prompts, self._language), call)

    async def _score(self, task: _Task, request: EvaluationRequest, sampling: Sampling | None) -> MetricScore:
        if sampling is not None:
            return await self._sample_score(task, request, sampling)
        try:
            judged = await task.metric.evaluate(
                request.user_query, request.submission, task.call, task.config.instruction
            )
        except JudgeFailed as failed:
            raise _build_evaluator_error(task, failed) from failed.cause
        return MetricScore(task.config.name, judged.score, judged.evaluator_comment)

    async def _sample_score(self, task: _Task, request: EvaluationRequest, sampling: Sampling) -> MetricScore:
        """Return the mean of repeated scores; a failed call is unmeasured; if all fail, the metric fails."""
        samples: list[float] = []
        comment, unmeasured = "", 0
        for number in range(1, sampling.max_samples + 1):
            try:
                judged = await task.metric.evaluate(
                    request.user_query, request.submission, task.call, task.config.instruction
                )
            except JudgeFailed as failed:
                unmeasured += 1
                if number == sampling.max_samples and not samples:
                    raise _build_evaluator_error(task, failed) from failed.cause
                continue
            samples.append(judged.score)
            comment = judged.evaluator_comment
            lower, upper = compute_mean_interval(samples)
            if len(samples) >= sampling.min_samples and upper - lower <= 2 * sampling.half_width:
                break
        lower, upper = compute_mean_interval(samples)
        mean = math.fsum(samples) / len(samples)
        return MetricScore(task.config.name, mean, comment, SampledScore(tuple(samples), unmeasured, lower, upper))


def _build_evaluator_error(task: _Task, failed: JudgeFailed) -> EvaluatorAPIError:
    return EvaluatorAPIError(task.call.model.provider, task.config.name, failed.retries, failed.cause)
