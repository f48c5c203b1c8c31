"""Chat models of any provider as judges."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from chassis import deadlines
from libs.llm.client import LLMClient
from libs.llm.connect import connect_chat
from libs.llm.errors import KeyMissing, ProviderNotInstalled, ProviderUnknown
from libs.llm.providers import OFFLINE
from libs.llm.settings import LLMSettings
from services.validator.domain.errors import EvaluationInvalid, ModelKeyMissing
from services.validator.usecases.judge_by_rules import RuleJudge
from services.validator.usecases.ports import JudgeCall, JudgeQuestion

S = TypeVar("S", bound=BaseModel)

QUEUE_SECONDS = 600.0
"""Seconds that a call may wait in the queue, in addition to its time limit."""


class ChatJudgeModel:
    """Connects to each model on first use; keys come from the environment, like all settings of models (G-09).

    The provider `offline` has no models: its judge works by rules.
    """

    def __init__(self, settings: Callable[[], LLMSettings], rules: RuleJudge) -> None:
        self._settings = settings
        self._rules = rules
        self._clients: dict[tuple[object, ...], LLMClient] = {}

    async def judge(self, call: JudgeCall, question: JudgeQuestion, shape: type[S]) -> S:
        """Make one call. Raises ModelKeyMissing, EvaluationInvalid; ModelUnavailable for a failed call."""
        if call.model.provider == OFFLINE:
            return self._rules.judge(question, shape)
        messages = [("system", question.instruction), ("human", question.prompt)]
        return await self._create_client(call).ainvoke_structured(messages, shape, corrections=0)

    def _create_client(self, call: JudgeCall) -> LLMClient:
        key = (call.model, call.temperature, call.timeout_seconds)
        if key not in self._clients:
            self._clients[key] = self._connect(call)
        return self._clients[key]

    def _connect(self, call: JudgeCall) -> LLMClient:
        # The judge repeats its calls itself and counts them (V-54), so the model underneath makes each one once.
        chosen = {
            "llm_provider": call.model.provider,
            "llm_model": call.model.name,
            "llm_temperature": call.temperature,
            "llm_retries": 0,
            "llm_attempt_seconds": call.timeout_seconds,
            "llm_call_seconds": call.timeout_seconds + QUEUE_SECONDS,
        }
        try:
            return connect_chat(self._settings().model_copy(update=chosen), remaining=deadlines.get_remaining)
        except KeyMissing as error:
            raise ModelKeyMissing(*error.variables) from None
        except (ProviderUnknown, ProviderNotInstalled) as error:
            raise EvaluationInvalid(str(error)) from None

    async def close(self) -> None:
        """Close the connections to all providers."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()
