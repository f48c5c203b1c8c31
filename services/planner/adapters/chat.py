"""Chat models behind the port of the use cases."""

from __future__ import annotations

from libs.llm.client import LLMClient
from libs.llm.replies import read_text
from libs.llm.usage import collect_usage
from services.planner.usecases.ports import Completion


class ChatCompletions:
    """One chat model with its settings; each call reports tokens and cost where the provider does."""

    def __init__(self, client: LLMClient) -> None:
        self._client = client

    async def complete(self, system: str, prompt: str) -> Completion:
        """Return the reply. Raises the errors of libs.llm.errors."""
        with collect_usage() as usage:
            reply = await self._client.ainvoke([("system", system), ("human", prompt)])
        tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        return Completion(read_text(reply), tokens, round(1e6 * (usage.cost_usd or 0.0)))
