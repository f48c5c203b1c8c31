"""The chat model of libs/llm as the reflector calls it."""

from __future__ import annotations

from collections.abc import Sequence

from libs.llm.client import LLMClient
from services.reflector.usecases.ports import Message, Reply


class ChatReflectionModel:
    """Asks an LLMClient; one call a reply, held to the shape by the backend where it can be (R-10, R-30)."""

    def __init__(self, client: LLMClient, name: str) -> None:
        self.name = name
        self._client = client

    async def reply(self, messages: Sequence[Message], shape: type[Reply]) -> Reply:
        """Return the answer in `shape`; the prompt itself says the form, so nothing is added to it (C-52)."""
        return await self._client.ainvoke_structured(list(messages), shape, describe_schema=False, corrections=0)
