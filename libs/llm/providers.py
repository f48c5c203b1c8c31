"""The providers of chat and embedding models; a provider's library is imported only when it is chosen (G-03)."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from libs.llm.chat import ChatModel, OfflineChatModel
from libs.llm.errors import ProviderNotInstalled, ProviderUnknown

OFFLINE = "offline"

Build = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Provider:
    """Who serves models. `key_variable` is the environment variable without which it cannot work (G-08).

    `speaks_openai`: it is called through OpenAI's library, which takes an HTTP client of ours and any request body.
    """

    chat: Build
    embeddings: Build | None = None
    key_variable: str = ""
    speaks_openai: bool = False


def _class(provider: str, module: str, name: str, extra: str) -> Any:
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise ProviderNotInstalled(provider, module.replace("_", "-"), extra) from error


def openai_connections() -> Any:
    """An HTTP client as OpenAI's library wants it; whoever asks for it closes it."""
    return _class("openai", "openai", "DefaultAsyncHttpxClient", "llm")(verify=_authorities())


@cache
def synchronous_connections() -> Any:
    """What LangChain would else make for every model; nobody here calls by it."""
    return _class("openai", "openai", "DefaultHttpxClient", "llm")(verify=_authorities())


@cache
def _authorities() -> ssl.SSLContext:
    """Whose certificates are trusted; to read them takes 20 ms, each time anew."""
    from httpx import create_ssl_context

    return create_ssl_context()


def _openai(model: str, **options: Any) -> Any:
    chat = _class("openai", "langchain_openai", "ChatOpenAI", "llm")
    return chat(model=model, **{"max_retries": 0, **options})


def _openai_embeddings(model: str, **options: Any) -> Any:
    # Counting tokens beforehand would load an encoding from the network, and sends token ids, which few servers take.
    embeddings = _class("openai", "langchain_openai", "OpenAIEmbeddings", "llm")
    return embeddings(model=model, **{"max_retries": 0, "check_embedding_ctx_length": False, **options})


def _azure(model: str, **options: Any) -> Any:
    chat = _class("azure", "langchain_openai", "AzureChatOpenAI", "llm")
    return chat(azure_deployment=model, **{"max_retries": 0, **options})


def _azure_embeddings(model: str, **options: Any) -> Any:
    embeddings = _class("azure", "langchain_openai", "AzureOpenAIEmbeddings", "llm")
    return embeddings(azure_deployment=model, **{"max_retries": 0, "check_embedding_ctx_length": False, **options})


def _bedrock(model: str, **options: Any) -> Any:
    chat = _class("bedrock", "langchain_aws", "ChatBedrock", "bedrock")
    return chat(model_id=model, **{"max_retries": 0, **options})


def _bedrock_embeddings(model: str, **options: Any) -> Any:
    return _class("bedrock", "langchain_aws", "BedrockEmbeddings", "bedrock")(model_id=model, **options)


def _gemini(model: str, **options: Any) -> Any:
    chat = _class("gemini", "langchain_google_genai", "ChatGoogleGenerativeAI", "google")
    return chat(model=model, **{"max_retries": 0, **options})


def _gemini_embeddings(model: str, **options: Any) -> Any:
    return _class("gemini", "langchain_google_genai", "GoogleGenerativeAIEmbeddings", "google")(model=model, **options)


def _offline(model: str, **options: Any) -> ChatModel:
    return OfflineChatModel()


_GEMINI = Provider(_gemini, _gemini_embeddings, key_variable="GOOGLE_API_KEY")

PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(_openai, _openai_embeddings, key_variable="OPENAI_API_KEY", speaks_openai=True),
    "azure": Provider(_azure, _azure_embeddings, speaks_openai=True),
    "bedrock": Provider(_bedrock, _bedrock_embeddings),
    "gemini": _GEMINI,
    "google-gla": _GEMINI,
    OFFLINE: Provider(_offline),
}


def provider_named(provider: str) -> Provider:
    """The provider of this name. Errors: ProviderUnknown."""
    try:
        return PROVIDERS[provider]
    except KeyError:
        raise ProviderUnknown(provider) from None


def create_chat_model(provider: str, model: str, **options: Any) -> ChatModel:
    """The provider's LangChain chat model, which makes each call once; `options` go to its constructor.

    Errors: ProviderUnknown (a ValueError), ProviderNotInstalled.
    """
    chat: ChatModel = provider_named(provider).chat(model, **options)
    return chat


def create_embedding_model(provider: str, model: str, **options: Any) -> Any:
    """The provider's LangChain embedding model, which makes each call once; `options` go to its constructor.

    Errors: ProviderUnknown, also for a provider without embedding models (offline: the search service has its own).
    """
    build = provider_named(provider).embeddings
    if build is None:
        raise ProviderUnknown(provider)
    return build(model, **options)
