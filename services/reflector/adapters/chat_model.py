"""Adapts the chat model of libs/llm to the port of the reflector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from libs.llm.client import LLMClient
from services.reflector.prompts.builder import Message
from services.reflector.usecases.ports import Reply


class ChatReflectionModel:
    """Calls an LLMClient; the backend enforces the schema where it can, and an invalid reply is asked for again."""

    def __init__(self, client: LLMClient, name: str) -> None:
        self.name = name
        self._client = client

    async def find_context_tokens(self) -> int | None:
        """Return the size of the model's context, None if it is unknown."""
        return await self._client.find_context_tokens()

    async def reply(
        self,
        messages: Sequence[Message],
        shape: type[Reply],
        report_problem: Callable[[str], None] = lambda problem: None,
    ) -> Reply:
        """Return the reply as a `shape`; the prompt itself describes the form, so nothing is added (C-52)."""
        return await self._client.ainvoke_structured(
            list(messages), shape, describe_schema=False, report_truncation=report_problem
        )
