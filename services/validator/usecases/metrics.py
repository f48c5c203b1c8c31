"""Metrics that a language model judges (spec section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from libs.prompts.builder import UserPromptBuilder
from libs.prompts.contexts import EvaluatorPromptContext
from libs.prompts.language import LanguageSetting, choose_language
from services.validator.domain.errors import EvaluationInvalid, PromptUnusable
from services.validator.prompts.instructions import METRIC_INSTRUCTIONS
from services.validator.usecases.judging import RetryingJudge
from services.validator.usecases.ports import JudgeCall, JudgeQuestion, QuestionSubject


class JudgedScore(BaseModel):
    """The answer of a judge; the schema requires both fields (V-53)."""

    model_config = ConfigDict(frozen=True)

    score: float = Field(ge=0, le=100, allow_inf_nan=False)
    evaluator_comment: str

    @field_validator("score", mode="before")
    @classmethod
    def _refuse_boolean(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("must be a number")
        return value


class LLMJudgeMetric:
    """A metric judged by a model; subclasses have an instruction of their own."""

    def __init__(self, judge: RetryingJudge, prompts: UserPromptBuilder, language: LanguageSetting = "ja") -> None:
        self._judge = judge
        self._prompts = prompts
        self._language: LanguageSetting = language

    def get_instruction(self, user_query: str = "") -> str:
        """Return the metric's rubric in the configured language, else that of the query."""
        return METRIC_INSTRUCTIONS[choose_language(self._language, user_query)][type(self).__name__]

    def _get_user_prompt(self, user_query: str, submission: str) -> str:
        context = EvaluatorPromptContext(user_query=user_query, submission=submission)
        try:
            return self._prompts.build_evaluator_prompt(context)
        except Exception as error:  # any error of a template, B-12 and B-13, or of a wrong TZ, B-30
            raise PromptUnusable(f"the evaluator prompt cannot be built: {error}") from error

    async def evaluate(
        self, user_query: str, submission: str, call: JudgeCall, instruction: str | None = None
    ) -> JudgedScore:
        """Score a submission; `instruction` replaces the metric's own (V-52). Raises JudgeFailed."""
        subject = QuestionSubject(user_query, (submission,), type(self).__name__)
        prompt = self._get_user_prompt(user_query, submission)
        question = JudgeQuestion(instruction or self.get_instruction(user_query), prompt, subject)
        return await self._judge.judge(call, question, JudgedScore)


class ClarityCoherence(LLMJudgeMetric):
    """Structure, simple language, sentences, readability: 25 points each."""


class Coverage(LLMJudgeMetric):
    """Topics 40, depth 30, completeness 30."""


class Relevance(LLMJudgeMetric):
    """Direct answer 40, context fit 30, focus 30."""


class LLMPlain(LLMJudgeMetric):
    """Overall quality; meant to get its own instruction."""


BUILT_IN_METRICS: Mapping[str, type[LLMJudgeMetric]] = {
    metric.__name__: metric for metric in (ClarityCoherence, Coverage, Relevance, LLMPlain)
}


def find_metric(name: str) -> type[LLMJudgeMetric]:
    """Return the built-in metric of this name. Raises EvaluationInvalid."""
    if name not in BUILT_IN_METRICS:
        raise EvaluationInvalid(f"Unknown metric '{name}': expected one of {', '.join(BUILT_IN_METRICS)}")
    return BUILT_IN_METRICS[name]
