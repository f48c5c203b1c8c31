"""Chat models behind the port of the use cases."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from libs.llm.client import LLMClient
from libs.llm.errors import ReplyNotStructured
from libs.llm.replies import read_text
from libs.llm.usage import UsageTotal, collect_usage
from services.planner.usecases.ports import Completion

S = TypeVar("S", bound=BaseModel)


class ChatCompletions:
    """One chat model with its settings; each call reports tokens and cost where the provider does."""

    def __init__(self, client: LLMClient) -> None:
        self._client = client

    async def complete(self, system: str, prompt: str) -> Completion:
        """Return the reply. Raises the errors of libs.llm.errors."""
        with collect_usage() as usage:
            reply = await self._client.ainvoke([("system", system), ("human", prompt)])
        return _build_completion(read_text(reply), usage)

    async def complete_structured(self, system: str, prompt: str, shape: type[S]) -> tuple[S | None, Completion]:
        """Return the reply as a `shape`, None for an unusable one, and the usage of all its calls.

        `system` describes the form of the reply. Raises the errors of libs.llm.errors.
        """
        with collect_usage() as usage:
            try:
                value = await self._client.ainvoke_structured(
                    [("system", system), ("human", prompt)], shape, describe_schema=False
                )
            except ReplyNotStructured as error:
                return None, _build_completion(str(error), usage)
        return value, _build_completion(value.model_dump_json(), usage)


def _build_completion(text: str, usage: UsageTotal) -> Completion:
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return Completion(text, tokens, round(1e6 * (usage.cost_usd or 0.0)))
