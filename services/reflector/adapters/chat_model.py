"""Adapts the chat model of libs/llm to the port of the reflector."""

from __future__ import annotations

from collections.abc import Sequence

from libs.llm.client import LLMClient
from services.reflector.usecases.ports import Message, Reply


class ChatReflectionModel:
    """Calls an LLMClient once for each reply; the backend enforces the schema where it can (R-10, R-30)."""

    def __init__(self, client: LLMClient, name: str) -> None:
        self.name = name
        self._client = client

    async def reply(self, messages: Sequence[Message], shape: type[Reply]) -> Reply:
        """Return the reply as a `shape`; the prompt itself describes the form, so nothing is added (C-52)."""
        return await self._client.ainvoke_structured(list(messages), shape, describe_schema=False, corrections=0)
