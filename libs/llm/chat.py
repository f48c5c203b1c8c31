"""The interface of chat models, and two implementations: one that retries a provider's model, and one for offline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from libs.llm.attempts import Attempts
from libs.llm.errors import ModelOffline
from libs.llm.tracing import model_call, set_span_usage
from libs.llm.usage import Price, Usage, compute_cost, record

Messages = Sequence[Any]
"""LangChain messages, or (role, text) pairs with a role of `system`, `human` or `ai`."""

Close = Callable[[], Awaitable[None]]


async def close_nothing() -> None:
    """Do nothing: the model has no connection of its own."""


class ChatModel(Protocol):
    """The used part of LangChain's chat models; `options` go to the provider's call."""

    def invoke(self, messages: Any, /, **options: Any) -> Any:
        """Return the model's reply, blocking."""

    async def ainvoke(self, messages: Any, /, **options: Any) -> Any:
        """Return the model's reply."""


class ReliableChatModel:
    """A provider's chat model with retries, deadline, concurrency limit and recorded usage.

    `takes_schema`: the backend speaks OpenAI's protocol, where `response_format` enforces a JSON schema.
    `context_tokens`: the size of the model's context; None: unknown.
    """

    def __init__(
        self,
        chat_model: ChatModel,
        name: str,
        attempts: Attempts,
        *,
        provider: str = "openai",
        takes_schema: bool = False,
        context_tokens: int | None = None,
        price: Price | None = None,
    ) -> None:
        self._chat_model = chat_model
        self._name = name
        self._provider = provider
        self._attempts = attempts
        self._price = price
        self.takes_schema = takes_schema
        self.context_tokens = context_tokens

    async def ainvoke(self, messages: Messages, /, **options: Any) -> Any:
        """Return the reply, with retries. Raise an error of libs.llm.errors."""
        with model_call("chat", self._provider, self._name) as span:
            reply, attempts = await self._attempts.run(lambda: self._chat_model.ainvoke(messages, **options))
            set_span_usage(span, self._record_usage(reply, attempts))
        return reply

    def invoke(self, messages: Messages, /, **options: Any) -> Any:
        """Return the reply of one blocking attempt without deadline or limit. For scripts; services use `ainvoke`."""
        with model_call("chat", self._provider, self._name) as span:
            reply = self._chat_model.invoke(messages, **options)
            set_span_usage(span, self._record_usage(reply, 1))
        return reply

    def _record_usage(self, reply: object, attempts: int) -> Usage:
        sent, received = _count_tokens(getattr(reply, "usage_metadata", None))
        usage = Usage(self._name, sent, received, compute_cost(sent, received, self._price), attempts)
        record(usage)
        return usage


def _count_tokens(counts: object) -> tuple[int | None, int | None]:
    """Return the tokens sent and received; LangChain reports an unknown count as 0, and no prompt has 0 tokens."""
    if not isinstance(counts, Mapping):
        return None, None
    sent, received = counts.get("input_tokens"), counts.get("output_tokens")
    if not isinstance(sent, int) or not isinstance(received, int) or sent <= 0 or received < 0:
        return None, None
    return sent, received


class OfflineChatModel:
    """The chat model of offline mode: every call fails, because the agents use rules instead."""

    async def ainvoke(self, messages: Messages, /, **options: Any) -> Any:
        """Raise ModelOffline."""
        self.invoke(messages)

    def invoke(self, messages: Messages, /, **options: Any) -> NoReturn:
        """Raise ModelOffline."""
        raise ModelOffline("LLM_PROVIDER=offline has no chat model: choose a provider, or a method that works by rules")
