"""Chat models of any provider as judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from chassis import deadlines
from chassis.server.evicting_cache import EvictingCache
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
MAX_CLIENTS = 32
"""Clients kept with their connections. Callers choose model, temperature and timeout, so there is no end of clients."""


@dataclass(slots=True)
class _SharedClient:
    """A client and the number of its calls in progress."""

    client: LLMClient
    calls: int = 0


class ChatJudgeModel:
    """Connects to each model on first use; keys come from the environment, like all settings of models (G-09).

    Beyond MAX_CLIENTS the least recently used client is closed, as soon as its calls in progress have ended.
    The provider `offline` has no models: its judge works by rules.
    """

    def __init__(self, settings: Callable[[], LLMSettings], rules: RuleJudge) -> None:
        self._settings = settings
        self._rules = rules
        self._evicted: list[_SharedClient] = []
        self._clients = EvictingCache[_SharedClient](MAX_CLIENTS, self._evicted.append)

    async def judge(self, call: JudgeCall, question: JudgeQuestion, shape: type[S]) -> S:
        """Make one call. Raises ModelKeyMissing, EvaluationInvalid; ModelUnavailable for a failed call."""
        if call.model.provider == OFFLINE:
            return self._rules.judge(question, shape)
        messages = [("system", question.instruction), ("human", question.prompt)]
        shared = self._get_client(call)
        shared.calls += 1
        try:
            return await shared.client.ainvoke_structured(messages, shape, corrections=0)
        finally:
            shared.calls -= 1
            await self._close_evicted()

    def _get_client(self, call: JudgeCall) -> _SharedClient:
        key = repr((call.model, call.temperature, call.timeout_seconds))
        if key not in self._clients:
            self._clients[key] = _SharedClient(self._connect(call))
        return self._clients[key]

    async def _close_evicted(self) -> None:
        """Close the evicted clients without calls in progress."""
        while idle := next((shared for shared in self._evicted if not shared.calls), None):
            self._evicted.remove(idle)
            await idle.client.aclose()

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
        for shared in (*self._clients.peek_values(), *self._evicted):
            await shared.client.aclose()
        self._clients.clear()
        self._evicted.clear()
