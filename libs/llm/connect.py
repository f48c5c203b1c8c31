"""From settings to a client: the one place where a model is put together. For the bootstrap of a service."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from libs.llm.attempts import Attempts, no_deadline
from libs.llm.chat import Close, ReliableChatModel, nothing_to_close
from libs.llm.client import LLMClient
from libs.llm.errors import ModelUnavailable
from libs.llm.failures import failure_of
from libs.llm.providers import (
    OFFLINE,
    create_chat_model,
    create_embedding_model,
    openai_connections,
    provider_named,
    synchronous_connections,
)
from libs.llm.settings import EmbeddingSettings, LLMSettings, ProviderSettings

if TYPE_CHECKING:
    from libs.llm.embeddings import EmbeddingClient

Remaining = Callable[[], float | None]


def connect_chat(settings: LLMSettings, *, remaining: Remaining = no_deadline, **options: Any) -> LLMClient:
    """The client of the configured chat model; nothing is sent yet. `options` go to the provider's constructor.

    `remaining` tells the seconds the current caller has left, or None. Errors: KeyMissing, ProviderNotInstalled.
    """
    provider, model = settings.llm_provider, settings.llm_model
    chosen = {"temperature": settings.llm_temperature, "max_tokens": settings.llm_max_tokens}
    options = {**{name: value for name, value in chosen.items() if value is not None}, **options}
    if provider == OFFLINE:
        return LLMClient(create_chat_model(provider, model))
    access, close = _access(settings, provider)
    chat_model = create_chat_model(provider, model, **access, **options)
    reliable = ReliableChatModel(
        chat_model,
        model,
        _attempts(settings, provider, model, remaining),
        provider=provider,
        takes_schema=provider_named(provider).speaks_openai and settings.llm_structured_output == "auto",
        price=settings.price_of(model),
    )
    return LLMClient(reliable, close)


def connect_embeddings(
    settings: EmbeddingSettings,
    provider: str = "openai",
    *,
    remaining: Remaining = no_deadline,
    **options: Any,
) -> EmbeddingClient:
    """The client of the configured embedding model; nothing is sent yet. `options` go to the provider's constructor.

    Errors: ProviderUnknown, KeyMissing, ProviderNotInstalled.
    """
    from libs.llm.embeddings import EmbeddingClient  # with numpy, which chat models do not need

    model = settings.embedding_model
    access, close = _access(settings, provider)
    return EmbeddingClient(
        create_embedding_model(provider, model, **access, **options),
        model,
        _attempts(settings, provider, model, remaining),
        provider=provider,
        batch_size=settings.embedding_batch_size,
        dimension=settings.embedding_dimension,
        close=close,
    )


def _access(settings: ProviderSettings, provider: str) -> tuple[dict[str, Any], Close]:
    """Constructor options that carry key, address and connections, and how to close those.

    The connections are our own because LangChain shares its own among all models of a process and never closes them.
    """
    key = settings.key_of(provider)
    access: dict[str, Any] = {"api_key": key} if key else {}
    if provider == "openai" and settings.openai_base_url:
        access["base_url"] = settings.openai_base_url
    if not provider_named(provider).speaks_openai:
        return access, nothing_to_close
    connections = openai_connections()
    access |= {"http_async_client": connections, "http_client": synchronous_connections()}
    return access, connections.aclose


def _attempts(settings: ProviderSettings, provider: str, model: str, remaining: Remaining) -> Attempts:
    secrets = [key] if (key := settings.key_of(provider)) else []

    def failure(error: Exception) -> ModelUnavailable:
        return failure_of(error, model, secrets)

    return Attempts(model, settings.retry_policy, failure, concurrency=settings.llm_concurrency, remaining=remaining)
