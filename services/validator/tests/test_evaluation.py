"""Metrics, weights, results, and the judge of prospects."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel, ValidationError

from chassis.errors import FailedPrecondition
from libs.llm.errors import ReplyNotStructured
from libs.llm.structured_output import parse_structured
from libs.prompts.builder import UserPromptBuilder
from libs.prompts.settings import PromptBuilderSettings
from services.validator.domain.confidence_sequence import compute_mean_interval
from services.validator.domain.errors import (
    EvaluationInvalid,
    EvaluatorAPIError,
    JudgmentAPIError,
    ModelIdInvalid,
    ModelKeyMissing,
)
from services.validator.domain.evaluation import (
    DEFAULT_METRICS,
    EvaluationConfig,
    EvaluationRequest,
    EvaluationResult,
    MetricConfig,
    MetricScore,
    ModelId,
    Sampling,
    compute_overall_score,
    compute_weights,
)
from services.validator.usecases.evaluate import Evaluator
from services.validator.usecases.judge import JudgmentClient
from services.validator.usecases.judging import RetryingJudge
from services.validator.usecases.metrics import BUILT_IN_METRICS, JudgedScore
from services.validator.usecases.ports import JudgeCall, JudgeQuestion

S = TypeVar("S", bound=BaseModel)
MODEL = "google-gla:gemini-2.5-flash"


class ScriptedJudge:
    """Answers with prepared fields; an exception is raised. Records the prompts."""

    def __init__(self, answers: Iterable[dict[str, Any] | Exception]) -> None:
        self._answers = iter(answers)
        self.calls: list[tuple[JudgeCall, str, str]] = []

    async def judge(self, call: JudgeCall, question: JudgeQuestion, shape: type[S]) -> S:
        self.calls.append((call, question.instruction, question.prompt))
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return shape.model_validate(answer)


class Pauses:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def score_answer(score: float, comment: str = "") -> dict[str, Any]:
    return {"score": score, "evaluator_comment": comment}


def evaluator(judge: ScriptedJudge) -> Evaluator:
    prompts = UserPromptBuilder(PromptBuilderSettings(), lambda: "NOW")
    return Evaluator(RetryingJudge(judge, Pauses()), prompts, MODEL)


async def evaluate_scores(*scores: float, metrics: tuple[MetricConfig, ...] = DEFAULT_METRICS) -> EvaluationResult:
    judge = ScriptedJudge([score_answer(score) for score in scores])
    return await evaluator(judge).evaluate(EvaluationRequest("q", "s", config=EvaluationConfig(metrics)))


def metrics_without_weights(*names: str) -> tuple[MetricConfig, ...]:
    return tuple(MetricConfig(name) for name in names)


async def test_the_examples_of_overall_scores_hold() -> None:  # V-50, V-56, V-59, V-60
    assert (await evaluate_scores(80, 90, 70)).overall_score == 80.00
    result = await evaluate_scores(85.555, 70, 90)
    assert [score.score for score in result.metrics] == [85.56, 70, 90]
    assert result.overall_score == 81.86
    three = metrics_without_weights("ClarityCoherence", "Coverage", "Relevance")
    assert (await evaluate_scores(80, 90, 70, metrics=three)).overall_score == 80.00
    two = (MetricConfig("Coverage", weight=0.6), MetricConfig("Relevance", weight=0.4))
    assert (await evaluate_scores(90.12, 80.34, metrics=two)).overall_score == 86.21


@pytest.mark.parametrize("weights", [(0.999,), (1.001,), (0.5, 0.499), (0.334, 0.333, 0.333)])
def test_weights_near_one_are_accepted(weights: tuple[float, ...]) -> None:  # V-59
    compute_weights([MetricConfig(f"m{index}", weight=weight) for index, weight in enumerate(weights)])


@pytest.mark.parametrize("total", [0.998, 1.002])
def test_other_weights_are_refused(total: float) -> None:  # V-59
    with pytest.raises(ValueError, match=f"^Metric weights must sum to 1.0, got: {total}$"):
        compute_weights([MetricConfig("a", weight=total - 0.5), MetricConfig("b", weight=0.5)])


def test_some_weights_are_refused() -> None:  # V-59
    with pytest.raises(ValueError, match=r"^Metric weights must be given for all metrics or for none$"):
        EvaluationConfig((MetricConfig("Coverage", weight=1.0), MetricConfig("Relevance")))


def test_names_are_unique_and_not_blank() -> None:  # V-56, V-58
    with pytest.raises(ValueError, match=r"^Duplicate metric names found: Coverage$"):
        EvaluationConfig(metrics_without_weights("Coverage", "Coverage"))
    with pytest.raises(ValueError, match=r"^Metric name cannot be empty$"):
        MetricScore(" ", 1.0)
    same = MetricScore("a", 1.0)
    with pytest.raises(ValueError, match=r"^Duplicate metric names found: a$"):
        EvaluationResult((same, same), 1.0)
    with pytest.raises(ValueError, match="at least one metric"):
        EvaluationResult((), 1.0)


def test_a_score_without_weight_is_an_error() -> None:  # V-60, V-84
    with pytest.raises(ValueError, match=r"^Weight not found for metric 'b'$"):
        compute_overall_score([MetricScore("b", 1.0)], {"a": 1.0})


async def test_scores_carry_the_configured_name() -> None:  # V-57, V-84
    metrics = (MetricConfig("幅", metric="Coverage", weight=1.0),)
    result = await evaluate_scores(70, metrics=metrics)
    assert (result.metrics[0].metric_name, result.overall_score) == ("幅", 70.0)


async def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(EvaluationInvalid, match="Unknown metric 'x'"):
        await evaluate_scores(1, metrics=metrics_without_weights("x"))


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -0.01, 100.01])
def test_scores_are_bounded(score: float) -> None:  # V-53, V-56
    with pytest.raises(ValueError, match=r"0\.\.100"):
        MetricScore("a", score)
    with pytest.raises(ValidationError):
        JudgedScore(score=score, evaluator_comment="")


def test_a_boolean_is_no_score() -> None:
    with pytest.raises(ReplyNotStructured, match="score: must be a number"):
        parse_structured('{"score": true, "evaluator_comment": ""}', JudgedScore)


def test_both_fields_are_required_by_the_schema() -> None:  # V-53, B-52
    assert set(JudgedScore.model_json_schema()["required"]) == {"score", "evaluator_comment"}


def test_comments_are_stripped() -> None:  # V-56
    assert MetricScore("a", 1.234, " x \n").evaluator_comment == "x"


@pytest.mark.parametrize("field", ["user_query", "submission"])
def test_requests_are_stripped_and_not_blank(field: str) -> None:  # V-62
    texts = {"user_query": " q ", "submission": " s "}
    request = EvaluationRequest(**texts)  # type: ignore[arg-type]
    assert (request.user_query, request.submission) == ("q", "s")
    with pytest.raises(ValueError, match=f"^{field} cannot be empty$"):
        EvaluationRequest(**{**texts, field: " \n"})  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "gpt-4o", ":x", "x:", " : "])
def test_model_ids_are_parsed_or_refused(text: str) -> None:  # V-55
    with pytest.raises(ModelIdInvalid) as raised:
        ModelId.parse(text)
    assert str(raised.value) == f"Invalid model id '{text}': expected provider:model-name"
    assert isinstance(raised.value, ValueError)
    assert ModelId.parse("openai:llama3:8b") == ModelId("openai", "llama3:8b")


async def test_the_judge_gets_rubric_query_and_submission() -> None:  # V-51, V-52, V-54, G-71
    judge = ScriptedJudge([score_answer(1), score_answer(2), score_answer(3)])
    await evaluator(judge).evaluate(EvaluationRequest("問い {x}", "提出 {{ y }}"))
    call, instruction, prompt = judge.calls[0]
    assert call == JudgeCall(ModelId("google-gla", "gemini-2.5-flash"), 0.0, 300.0, 3)
    assert instruction.count("25") == 4
    assert "問い {x}" in prompt
    assert "提出 {{ y }}" in prompt
    for _, rubric, _ in judge.calls[1:]:
        assert all(points in rubric for points in ("40点", "30点", "90", "70", "50", "30"))


async def test_an_instruction_replaces_the_metrics_own() -> None:  # V-50, V-52
    judge = ScriptedJudge([score_answer(50)])
    config = EvaluationConfig((MetricConfig("LLMPlain", instruction="一文で採点"),), model="openai:m", temperature=0.5)
    await evaluator(judge).evaluate(EvaluationRequest("q", "s", config=config))
    call, instruction, _ = judge.calls[0]
    assert instruction == "一文で採点"
    assert (str(call.model), call.temperature) == ("openai:m", 0.5)


def test_every_built_in_metric_has_an_instruction_in_both_languages() -> None:  # V-50, V-51
    prompts = UserPromptBuilder(PromptBuilderSettings())
    judge = RetryingJudge(ScriptedJudge([]))
    for metric in BUILT_IN_METRICS.values():
        texts = {metric(judge, prompts, language).get_instruction() for language in ("ja", "en")}
        assert len(texts) == 2


@pytest.mark.parametrize(
    ("metric", "language", "points"),
    [
        ("ClarityCoherence", "ja", {"構成の論理性": 25, "平易な言葉": 25, "文の組み立て": 25, "読みやすさ": 25}),
        ("ClarityCoherence", "en", {"structure": 25, "simple language": 25, "sentences": 25, "readability": 25}),
        ("Coverage", "ja", {"論点": 40, "深さ": 30, "完全さ": 30}),
        ("Coverage", "en", {"topics": 40, "depth": 30, "completeness": 30}),
        ("Relevance", "ja", {"直接の回答": 40, "文脈": 30, "焦点": 30}),
        ("Relevance", "en", {"direct answer": 40, "context": 30, "focus": 30}),
    ],
)
def test_each_criterion_of_a_rubric_has_its_points(metric: str, language: Any, points: dict[str, int]) -> None:  # V-51
    made = BUILT_IN_METRICS[metric](
        RetryingJudge(ScriptedJudge([])), UserPromptBuilder(PromptBuilderSettings()), language
    )
    instruction = made.get_instruction()
    criteria = re.findall(r"^- (.+): (\d+)(?:点| points)$", instruction, re.M)
    assert [int(number) for _, number in criteria] == list(points.values())
    assert all(word in criterion for word, (criterion, _) in zip(points, criteria, strict=True))
    assert [int(band) for band in re.findall(r"^- (\d\d)(?:点以上| )", instruction, re.M)] == [90, 70, 50, 30]


@pytest.mark.parametrize("template", ["{{ nope }}", "{{ 1/0 }}", "{% for %}"])
async def test_a_template_that_makes_no_prompt_is_named(template: str) -> None:  # B-12, B-13, B-48
    judge = ScriptedJudge([])
    prompts = UserPromptBuilder(PromptBuilderSettings(evaluator_user_prompt=template))
    with pytest.raises(FailedPrecondition, match="the evaluator prompt cannot be built"):
        await Evaluator(RetryingJudge(judge, Pauses()), prompts, MODEL).evaluate(EvaluationRequest("q", "s"))
    assert judge.calls == []


async def test_failures_and_invalid_replies_are_retried() -> None:  # V-53, V-54
    judge = ScriptedJudge([score_answer(101), RuntimeError("503"), {"score": 80}, score_answer(80)])
    pauses = Pauses()
    prompts = UserPromptBuilder(PromptBuilderSettings())
    config = EvaluationConfig(metrics_without_weights("Coverage"))
    request = EvaluationRequest("q", "s", config=config)
    result = await Evaluator(RetryingJudge(judge, pauses, lambda: 1.0), prompts, MODEL).evaluate(request)
    assert result.overall_score == 80
    assert pauses.seconds == [0.5, 1.0, 2.0]


async def test_the_first_failing_metric_ends_the_evaluation() -> None:  # V-54, V-61
    judge = ScriptedJudge([score_answer(80), *[RuntimeError("503")] * 4, score_answer(80)])
    with pytest.raises(EvaluatorAPIError) as raised:
        await evaluator(judge).evaluate(EvaluationRequest("q", "s"))
    error = raised.value
    assert (error.provider, error.metric_name, error.retry_count) == ("google-gla", "Coverage", 3)
    assert "503" in str(error)
    assert len(judge.calls) == 5


async def test_a_missing_key_is_not_retried() -> None:  # V-80
    judge = ScriptedJudge([ModelKeyMissing("GOOGLE_API_KEY")])
    with pytest.raises(FailedPrecondition, match=r"^GOOGLE_API_KEY is not set$"):
        await evaluator(judge).evaluate(EvaluationRequest("q", "s"))
    assert len(judge.calls) == 1


def sampling(answers: list[dict[str, Any] | Exception], **limits: Any) -> tuple[ScriptedJudge, EvaluationRequest]:
    config = EvaluationConfig(metrics_without_weights("Coverage"), max_retries=0, sampling=Sampling(**limits))
    return ScriptedJudge(answers), EvaluationRequest("q", "s", config=config)


async def test_repeated_scoring_stops_when_the_mean_is_known() -> None:
    judge, request = sampling([score_answer(80)] * 10)
    (score,) = (await evaluator(judge).evaluate(request)).metrics
    assert score.sampled is not None
    assert 3 <= len(score.sampled.samples) < 10
    assert score.sampled.upper - score.sampled.lower <= 10
    assert score.score == 80


async def test_repeated_scoring_continues_while_scores_differ() -> None:
    judge, request = sampling([score_answer(score) for score in (10, 90) * 5])
    (score,) = (await evaluator(judge).evaluate(request)).metrics
    assert score.sampled is not None
    assert len(score.sampled.samples) == 10
    assert score.score == 50


async def test_a_failed_sample_is_unmeasured_and_not_zero() -> None:
    judge, request = sampling([score_answer(80), RuntimeError("x"), score_answer(80), score_answer(80)], max_samples=4)
    (score,) = (await evaluator(judge).evaluate(request)).metrics
    assert score.sampled is not None
    assert (score.score, score.sampled.samples, score.sampled.unmeasured) == (80, (80, 80, 80), 1)


async def test_repeated_scoring_fails_only_when_every_sample_does() -> None:
    judge, request = sampling([RuntimeError("x")] * 3, max_samples=3)
    with pytest.raises(EvaluatorAPIError):
        await evaluator(judge).evaluate(request)


def test_min_samples_above_max_samples_is_refused() -> None:
    with pytest.raises(EvaluationInvalid, match="min_samples"):
        Sampling(min_samples=5, max_samples=4)


def test_the_interval_covers_the_mean_at_all_times() -> None:
    rng = random.Random(5)
    runs, missed = 600, 0
    for _ in range(runs):
        samples: list[float] = []
        for _ in range(40):
            samples.append(rng.gauss(60, 8))
            lower, upper = compute_mean_interval(samples)
            if not lower <= 60 <= upper:
                missed += 1
                break
    assert missed / runs <= 0.05


def test_the_interval_narrows() -> None:
    rng = random.Random(6)
    samples = [rng.gauss(60, 4) for _ in range(200)]
    widths = [
        compute_mean_interval(samples[:count])[1] - compute_mean_interval(samples[:count])[0]
        for count in (1, 5, 20, 200)
    ]
    assert widths[0] == 100
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 3


GOOD = {"should_continue": True, "reasoning": "伸びている", "confidence_score": 0.8}


def client(judge: ScriptedJudge) -> JudgmentClient:
    return JudgmentClient(RetryingJudge(judge, Pauses()), MODEL)


async def test_prospects_of_improvement_are_judged() -> None:  # V-63, V-64, V-65, B-54
    judge = ScriptedJudge([GOOD])
    judgment = await client(judge).judge_improvement_prospects("完成した prompt {x}")
    assert judgment.model_dump() == GOOD
    call, instruction, prompt = judge.calls[0]
    assert prompt == "完成した prompt {x}"
    assert (call.temperature, call.timeout_seconds, call.max_retries) == (0.0, 60.0, 3)
    assert all(word in instruction for word in ("品質の推移", "スコアの推移", "改善の余地"))


@pytest.mark.parametrize("prompt", ["", " \u3000"])
async def test_a_blank_prompt_is_refused(prompt: str) -> None:  # V-64
    with pytest.raises(ValueError, match=r"^formatted_prompt cannot be empty$"):
        await client(ScriptedJudge([])).judge_improvement_prospects(prompt)


async def test_a_failed_judgement_is_reported() -> None:  # V-66
    bad = GOOD | {"confidence_score": 1.5}
    judge = ScriptedJudge([RuntimeError("a"), bad, RuntimeError("b"), RuntimeError("down")])
    with pytest.raises(JudgmentAPIError) as raised:
        await client(judge).judge_improvement_prospects("x")
    assert str(raised.value) == "Failed to judge improvement prospects after 3 retries: down"
    assert len(judge.calls) == 4


async def test_pauses_heed_what_the_provider_asks_for() -> None:
    asked_to_wait = RuntimeError("429")
    asked_to_wait.retry_after = 7.0  # type: ignore[attr-defined]
    pauses = Pauses()
    patient = RetryingJudge(ScriptedJudge([asked_to_wait, GOOD]), pauses, lambda: 0.0)
    await JudgmentClient(patient, MODEL).judge_improvement_prospects("x")
    assert pauses.seconds == [7.0]
