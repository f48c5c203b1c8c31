"""The judge of `offline:rules`: deterministic, and it says that no model judged."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from libs.prompts.contexts import ImprovementJudgment
from services.validator.domain.language import Language
from services.validator.domain.rule_judge import NOTE, preferred, prospects, text_scores
from services.validator.usecases.compare import JudgedPreference
from services.validator.usecases.metrics import JudgedScore
from services.validator.usecases.ports import Question

S = TypeVar("S", bound=BaseModel)

OFFLINE_MODEL = "offline:rules"
CONFIDENCE = 0.5
"""Of judgements by rules; they rest on scores alone."""


class RuleJudge:
    """Answers every question that a judging model is asked here."""

    def __init__(self, language: Language = "ja") -> None:
        self._note = NOTE[language]

    def judge(self, question: Question, shape: type[S]) -> S:
        """The answer in the wanted shape. Raises TypeError for a shape that is none of the judges'."""
        subject = question.subject
        if shape is JudgedScore:
            scores = text_scores(subject.user_query, subject.submissions[0])
            answer = {"score": scores.of_metric(subject.metric), "evaluator_comment": self._note}
        elif shape is JudgedPreference:
            answer = {"preference": preferred(subject.user_query, *subject.submissions), "reasoning": self._note}
        elif shape is ImprovementJudgment:
            seen = prospects(question.prompt)
            reasoning = f"{self._note} {', '.join(f'{score:.2f}' for score in seen.scores)}".rstrip()
            answer = {"should_continue": seen.should_continue, "reasoning": reasoning, "confidence_score": CONFIDENCE}
        else:
            raise TypeError(f"no rule answers in the shape {shape.__name__}")
        return shape.model_validate(answer)
