"""The judge of `offline:rules`: deterministic; its comments say that no model judged."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from libs.prompts.contexts import ImprovementJudgment
from libs.prompts.language import LanguageSetting, choose_language
from services.validator.domain.rule_judge import NOTE, choose_preference, judge_prospects, score_text
from services.validator.usecases.compare import JudgedPreference
from services.validator.usecases.metrics import JudgedScore
from services.validator.usecases.ports import JudgeQuestion

S = TypeVar("S", bound=BaseModel)

OFFLINE_MODEL = "offline:rules"
CONFIDENCE = 0.5
"""The confidence of judgements by rules, which use scores alone."""


class RuleJudge:
    """Answers the questions of all judges by rules."""

    def __init__(self, language: LanguageSetting = "ja") -> None:
        self._language: LanguageSetting = language

    def judge(self, question: JudgeQuestion, shape: type[S]) -> S:
        """Return the answer as an instance of `shape`. Raises TypeError for a shape that no judge has."""
        subject = question.subject
        note = NOTE[choose_language(self._language, subject.user_query or question.prompt)]
        if shape is JudgedScore:
            scores = score_text(subject.user_query, subject.submissions[0])
            answer = {"score": scores.get_metric_score(subject.metric), "evaluator_comment": note}
        elif shape is JudgedPreference:
            answer = {
                "preference": choose_preference(subject.user_query, *subject.submissions),
                "reasoning": note,
            }
        elif shape is ImprovementJudgment:
            seen = judge_prospects(question.prompt)
            reasoning = f"{note} {', '.join(f'{score:.2f}' for score in seen.scores)}".rstrip()
            answer = {"should_continue": seen.should_continue, "reasoning": reasoning, "confidence_score": CONFIDENCE}
        else:
            raise TypeError(f"no rule can fill a {shape.__name__}")
        return shape.model_validate(answer)
