"""Scores, weights and requests of an evaluation (spec section 7)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.validator.domain.errors import EvaluationInvalid, ModelIdInvalid

WEIGHT_SUM_FROM, WEIGHT_SUM_TO = 0.999, 1.001


@dataclass(frozen=True, slots=True)
class ModelId:
    """A model as `provider:model-name`; the name may hold colons itself."""

    provider: str
    name: str

    @classmethod
    def parse(cls, text: str) -> ModelId:
        """Return the model id in `provider:name`. Raises ModelIdInvalid (V-55)."""
        provider, colon, name = text.partition(":")
        if not colon or not provider.strip() or not name.strip():
            raise ModelIdInvalid(text)
        return cls(provider.strip(), name.strip())

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"


@dataclass(frozen=True, slots=True)
class MetricConfig:
    """One metric: the name it is configured under, the built-in it uses (default: of that name), weight, overrides."""

    name: str
    metric: str = ""
    weight: float | None = None
    instruction: str | None = None
    model: str | None = None

    @property
    def built_in(self) -> str:
        """Return the name of the built-in metric."""
        return self.metric or self.name


DEFAULT_METRICS = (
    MetricConfig("ClarityCoherence", weight=0.334),
    MetricConfig("Coverage", weight=0.333),
    MetricConfig("Relevance", weight=0.333),
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Repeated scoring: between `min_samples` and `max_samples` calls, until the mean is known to `half_width`."""

    min_samples: int = 3
    max_samples: int = 10
    half_width: float = 5.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_samples <= self.max_samples:
            raise EvaluationInvalid(
                f"min_samples ({self.min_samples}) must be >= 1 and <= max_samples ({self.max_samples})"
            )


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """The configuration of an evaluation (V-54); times in seconds. `model` None: the service's default."""

    metrics: tuple[MetricConfig, ...] = DEFAULT_METRICS
    model: str | None = None
    temperature: float = 0.0
    max_retries: int = 3
    timeout_seconds: float = 300.0
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        if not self.metrics:
            raise EvaluationInvalid("at least one metric is required")
        compute_weights(self.metrics)


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A submission to score for a user's query; both are stripped and not blank (V-62)."""

    user_query: str
    submission: str
    execution_id: str | None = None
    team_id: str | None = None
    round_number: int | None = None
    config: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        for name in ("user_query", "submission"):
            object.__setattr__(self, name, getattr(self, name).strip())
            if not getattr(self, name):
                raise EvaluationInvalid(f"{name} cannot be empty")
        if self.round_number is not None and self.round_number < 1:
            raise EvaluationInvalid("round_number must be >= 1")


@dataclass(frozen=True, slots=True)
class SampledScore:
    """The outcome of repeated scoring: the scores, the number of failed calls, an interval of the mean, 0 to 100."""

    samples: tuple[float, ...]
    unmeasured: int
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class MetricScore:
    """A score of 0 to 100, rounded to 2 decimals, under the configured name of its metric (V-56, V-57)."""

    metric_name: str
    score: float
    evaluator_comment: str = ""
    sampled: SampledScore | None = None

    def __post_init__(self) -> None:
        if not self.metric_name.strip():
            raise EvaluationInvalid("Metric name cannot be empty")
        if not (math.isfinite(self.score) and 0 <= self.score <= 100):
            raise EvaluationInvalid(f"score of '{self.metric_name}' must be 0..100, got: {self.score}")
        object.__setattr__(self, "score", round(self.score, 2))
        object.__setattr__(self, "evaluator_comment", self.evaluator_comment.strip())


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The scores of one submission, one per metric, and their weighted sum (V-58)."""

    metrics: tuple[MetricScore, ...]
    overall_score: float

    def __post_init__(self) -> None:
        if not self.metrics:
            raise EvaluationInvalid("at least one metric is required")
        _refuse_duplicates([score.metric_name for score in self.metrics])
        object.__setattr__(self, "overall_score", round(self.overall_score, 2))


def compute_weights(metrics: Sequence[MetricConfig]) -> dict[str, float]:
    """Return the weights by configured name; 1/n each if no weight is configured (V-59)."""
    for metric in metrics:
        if not metric.name.strip():
            raise EvaluationInvalid("Metric name cannot be empty")
    _refuse_duplicates([metric.name for metric in metrics])
    configured = [metric.weight for metric in metrics if metric.weight is not None]
    if not configured:
        return {metric.name: 1 / len(metrics) for metric in metrics}
    if len(configured) < len(metrics):
        raise EvaluationInvalid("Metric weights must be given for all metrics or for none")
    total = round(sum(configured), 6)
    if not WEIGHT_SUM_FROM <= total <= WEIGHT_SUM_TO:
        raise EvaluationInvalid(f"Metric weights must sum to 1.0, got: {total}")
    return {metric.name: metric.weight for metric in metrics if metric.weight is not None}


def compute_overall_score(scores: Sequence[MetricScore], weights: Mapping[str, float]) -> float:
    """Return the weighted sum, rounded to 2 decimals, with weights by configured name (V-60, V-84)."""
    total = 0.0
    for score in scores:
        if score.metric_name not in weights:
            raise EvaluationInvalid(f"Weight not found for metric '{score.metric_name}'")
        total += score.score * weights[score.metric_name]
    return round(total, 2)


def _refuse_duplicates(names: Sequence[str]) -> None:
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise EvaluationInvalid(f"Duplicate metric names found: {', '.join(duplicates)}")
