"""Decides whether a team continues after a round."""

from __future__ import annotations

from typing import Protocol

from libs.prompts.contexts import ImprovementJudgment
from services.validator.domain.rounds import RoundDecision, RoundRules


class Judge(Protocol):
    """Judges whether another round is worthwhile (see `JudgmentClient`)."""

    async def judge_improvement_prospects(self, formatted_prompt: str, model: str | None = None) -> ImprovementJudgment:
        """Return the judgement."""


class DecideRound:
    """Applies the rules of rounds; asks the judge only where they say so."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def __call__(
        self, rules: RoundRules, round_number: int, formatted_prompt: str | None, model: str | None = None
    ) -> RoundDecision | None:
        """Return the decision; None when the judge has to be asked and there is no prompt.

        Raises EvaluationInvalid for a blank prompt, ModelIdInvalid, JudgmentAPIError.
        """
        decision = rules.decide_without_judge(round_number)
        if decision is not None or formatted_prompt is None:
            return decision
        judgment = await self._judge.judge_improvement_prospects(formatted_prompt, model)
        return rules.decide_by_judgment(judgment, round_number)
