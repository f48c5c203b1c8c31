"""Builds the client of a model from the settings, for the bootstrap of a service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from libs.llm.attempts import Attempts, no_deadline
from libs.llm.chat import Close, ReliableChatModel, nothing_to_close
from libs.llm.client import LLMClient
from libs.llm.errors import ModelUnavailable
from libs.llm.failures import failure_of
from libs.llm.providers import (
    OFFLINE,
    create_chat_model,
    find_provider,
    openai_connections,
    synchronous_connections,
)
from libs.llm.settings import LLMSettings, ProviderSettings

Remaining = Callable[[], float | None]


def connect_chat(settings: LLMSettings, *, remaining: Remaining = no_deadline, **options: Any) -> LLMClient:
    """Return the client of the configured chat model; nothing is sent yet. `options` go to the provider's constructor.

    `remaining` returns the seconds that the current caller has left, or None. Raise KeyMissing, ProviderNotInstalled.
    """
    provider, model = settings.llm_provider, settings.llm_model
    sampling = {"temperature": settings.llm_temperature, "max_tokens": settings.llm_max_tokens}
    options = {**{name: value for name, value in sampling.items() if value is not None}, **options}
    if provider == OFFLINE:
        return LLMClient(create_chat_model(provider, model))
    access, close = connection_options(settings, provider)
    chat_model = create_chat_model(provider, model, **access, **options)
    reliable = ReliableChatModel(
        chat_model,
        model,
        attempts_for(settings, provider, model, remaining),
        provider=provider,
        takes_schema=find_provider(provider).speaks_openai and settings.llm_structured_output == "auto",
        price=settings.price_of(model),
    )
    return LLMClient(reliable, close)


def connection_options(settings: ProviderSettings, provider: str) -> tuple[dict[str, Any], Close]:
    """Return constructor options with key, address and connections, and the function that closes the connections.

    LangChain would share its connections among all models of a process and never close them.
    """
    key = settings.key_of(provider)
    access: dict[str, Any] = {"api_key": key} if key else {}
    if provider == "openai" and settings.openai_base_url:
        access["base_url"] = settings.openai_base_url
    if not find_provider(provider).speaks_openai:
        return access, nothing_to_close
    connections = openai_connections()
    access |= {"http_async_client": connections, "http_client": synchronous_connections()}
    return access, connections.aclose


def attempts_for(settings: ProviderSettings, provider: str, model: str, remaining: Remaining) -> Attempts:
    """Return the retries for calls of one model."""
    secrets = [key] if (key := settings.key_of(provider)) else []

    def failure(error: Exception) -> ModelUnavailable:
        return failure_of(error, model, secrets)

    return Attempts(model, settings.call_policy, failure, concurrency=settings.llm_concurrency, remaining=remaining)
