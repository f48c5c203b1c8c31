"""Builds the client of a model from the settings, for the bootstrap of a service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from libs.llm.attempts import Attempts, report_no_deadline
from libs.llm.chat import Close, ReliableChatModel, close_nothing
from libs.llm.client import LLMClient, ReadContextTokens, read_no_context_tokens
from libs.llm.context_size import read_context_tokens
from libs.llm.errors import ModelUnavailable
from libs.llm.failures import translate_failure
from libs.llm.providers import (
    OFFLINE,
    OPENAI,
    create_chat_model,
    find_provider,
    open_openai_connections,
    open_synchronous_connections,
)
from libs.llm.request_options import OptionalChatModel
from libs.llm.settings import LLMSettings, ProviderSettings

Remaining = Callable[[], float | None]


def connect_chat(
    settings: LLMSettings,
    *,
    remaining: Remaining = report_no_deadline,
    default_temperature: float | None = None,
    **options: Any,
) -> LLMClient:
    """Return the client of the configured chat model; nothing is sent yet. `options` go to the provider's constructor.

    `remaining` returns the seconds that the current caller has left, or None. `default_temperature` applies where the
    settings have none; a model that takes no temperature is called without one. Raise KeyMissing, ProviderNotInstalled.
    """
    provider, model = settings.llm_provider, settings.llm_model
    if provider == OFFLINE:
        return LLMClient(create_chat_model(provider, model))
    access, close = build_connection_options(settings, provider)
    create = partial(create_chat_model, provider, model, **access, **options)
    temperature = default_temperature if settings.llm_temperature is None else settings.llm_temperature
    identity = f"{provider}:{model} {settings.openai_base_url if provider == OPENAI else ''}".strip()
    chat_model = OptionalChatModel(create, identity, temperature=temperature, max_tokens=settings.llm_max_tokens)
    reliable = ReliableChatModel(
        chat_model,
        model,
        build_attempts(settings, provider, model, remaining),
        provider=provider,
        context_tokens=settings.llm_context_tokens,
        takes_schema=find_provider(provider).speaks_openai and settings.llm_structured_output == "auto",
        price=settings.get_price(model),
    )
    return LLMClient(reliable, close, _choose_reader(settings, provider, model, access))


def _choose_reader(
    settings: ProviderSettings, provider: str, model: str, access: Mapping[str, Any]
) -> ReadContextTokens:
    """Return the function that asks an OpenAI-compatible server for the size of the context. OpenAI states none."""
    if provider != OPENAI or not settings.openai_base_url:
        return read_no_context_tokens
    client, key = access["http_async_client"], access["api_key"]
    return partial(read_context_tokens, client, settings.openai_base_url, key, model)


def build_connection_options(settings: ProviderSettings, provider: str) -> tuple[dict[str, Any], Close]:
    """Return constructor options with key, address and connections, and the function that closes the connections.

    LangChain would share its connections among all models of a process and never close them.
    """
    key = settings.get_key(provider)
    access: dict[str, Any] = {"api_key": key} if key else {}
    if provider == "openai" and settings.openai_base_url:
        access["base_url"] = settings.openai_base_url
    if not find_provider(provider).speaks_openai:
        return access, close_nothing
    connections = open_openai_connections()
    access |= {"http_async_client": connections, "http_client": open_synchronous_connections()}
    return access, connections.aclose


def build_attempts(settings: ProviderSettings, provider: str, model: str, remaining: Remaining) -> Attempts:
    """Return the retries for calls of one model."""
    secrets = [key] if (key := settings.get_key(provider)) else []

    def to_unavailable(error: Exception) -> ModelUnavailable:
        return translate_failure(error, model, secrets)

    return Attempts(
        model, settings.call_policy, to_unavailable, concurrency=settings.llm_concurrency, remaining=remaining
    )
