"""The judge of the prospects of another round (spec section 8)."""

from __future__ import annotations

from libs.prompts.contexts import ImprovementJudgment
from libs.prompts.language import LanguageSetting, choose_language
from services.validator.domain.errors import EvaluationInvalid, JudgmentAPIError
from services.validator.domain.evaluation import ModelId
from services.validator.prompts.instructions import JUDGE_INSTRUCTIONS
from services.validator.usecases.judging import JudgeFailed, RetryingJudge
from services.validator.usecases.ports import JudgeCall, JudgeQuestion

TEMPERATURE = 0.0
TIMEOUT_SECONDS = 60.0
MAX_RETRIES = 3


class JudgmentClient:
    """Calls the judging model; prompts arrive ready, nothing is added to them (V-64, B-54)."""

    def __init__(self, judge: RetryingJudge, default_model: str, language: LanguageSetting = "ja") -> None:
        self._judge = judge
        self._default_model = default_model
        self._language: LanguageSetting = language

    async def judge_improvement_prospects(self, formatted_prompt: str, model: str | None = None) -> ImprovementJudgment:
        """Return the judgement. Raises EvaluationInvalid (blank prompt), ModelIdInvalid, JudgmentAPIError (V-66)."""
        if not formatted_prompt.strip():
            raise EvaluationInvalid("formatted_prompt cannot be empty")
        model_id = ModelId.parse(model or self._default_model)
        call = JudgeCall(model_id, TEMPERATURE, TIMEOUT_SECONDS, MAX_RETRIES)
        instruction = JUDGE_INSTRUCTIONS[choose_language(self._language, formatted_prompt)].prospects
        try:
            return await self._judge.judge(call, JudgeQuestion(instruction, formatted_prompt), ImprovementJudgment)
        except JudgeFailed as failed:
            raise JudgmentAPIError(failed.retries, failed.cause) from failed.cause
