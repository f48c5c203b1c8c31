"""The providers of chat and embedding models; a provider's library is imported on first use (G-03)."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from libs.llm.chat import ChatModel, OfflineChatModel
from libs.llm.errors import ProviderNotInstalled, ProviderUnknown

OFFLINE, OPENAI = "offline", "openai"


@dataclass(frozen=True, slots=True)
class ModelClass:
    """A class of a provider's library, the package extra that installs it, and its constructor arguments."""

    module: str
    name: str
    extra: str
    model_argument: str = "model"
    options: Mapping[str, Any] = field(default_factory=lambda: {"max_retries": 0})

    def load(self, provider: str) -> Any:
        """Return the class. Raise ProviderNotInstalled."""
        try:
            return getattr(import_module(self.module), self.name)
        except ModuleNotFoundError as error:
            raise ProviderNotInstalled(provider, self.module.replace("_", "-"), self.extra) from error

    def create(self, provider: str, model: str, options: Mapping[str, Any]) -> Any:
        """Return a model of the class. Raise ProviderNotInstalled."""
        return self.load(provider)(**{self.model_argument: model, **self.options, **options})


@dataclass(frozen=True, slots=True)
class Provider:
    """A server of models. `key_variable` is the environment variable that it requires (G-08).

    `chat` is None for offline. `default_model`: the chat model unless another is set. `library_variables`: the
    variables that the provider's library reads and requires. `speaks_openai`: OpenAI's library calls the provider; it
    accepts our HTTP client and any request body.
    """

    chat: ModelClass | None = None
    embeddings: ModelClass | None = None
    key_variable: str = ""
    default_model: str = ""
    library_variables: tuple[str, ...] = ()
    speaks_openai: bool = False

    @property
    def missing_variables(self) -> tuple[str, ...]:
        """Return the required variables of the provider's library that are not set."""
        return tuple(name for name in self.library_variables if not os.environ.get(name, "").strip())


# check_embedding_ctx_length would load an encoding from the network and send token ids, which few servers accept.
_EMBEDDING_OPTIONS = {"max_retries": 0, "check_embedding_ctx_length": False}
_GEMINI = Provider(
    ModelClass("langchain_google_genai", "ChatGoogleGenerativeAI", "google"),
    ModelClass("langchain_google_genai", "GoogleGenerativeAIEmbeddings", "google", options={}),
    key_variable="GOOGLE_API_KEY",
    default_model="gemini-2.5-flash",
)

PROVIDERS: Mapping[str, Provider] = {
    OPENAI: Provider(
        ModelClass("langchain_openai", "ChatOpenAI", "llm"),
        ModelClass("langchain_openai", "OpenAIEmbeddings", "llm", options=_EMBEDDING_OPTIONS),
        key_variable="OPENAI_API_KEY",
        speaks_openai=True,
    ),
    "azure": Provider(
        ModelClass("langchain_openai", "AzureChatOpenAI", "llm", "azure_deployment"),
        ModelClass("langchain_openai", "AzureOpenAIEmbeddings", "llm", "azure_deployment", _EMBEDDING_OPTIONS),
        library_variables=("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION"),
        speaks_openai=True,
    ),
    "anthropic": Provider(
        ModelClass("langchain_anthropic", "ChatAnthropic", "anthropic"),
        key_variable="ANTHROPIC_API_KEY",
        default_model="claude-haiku-4-5",
    ),
    "bedrock": Provider(
        ModelClass("langchain_aws", "ChatBedrock", "bedrock", "model_id"),
        ModelClass("langchain_aws", "BedrockEmbeddings", "bedrock", "model_id", {}),
    ),
    "gemini": _GEMINI,
    "google-gla": _GEMINI,
    OFFLINE: Provider(),
}


def open_openai_connections() -> Any:
    """Return a new HTTP client for OpenAI's library; the caller closes it."""
    return ModelClass("openai", "DefaultAsyncHttpxClient", "llm").load("openai")(verify=_create_tls_context())


@cache
def open_synchronous_connections() -> Any:
    """Return the blocking HTTP client that LangChain would otherwise create for every model; services never use it."""
    return ModelClass("openai", "DefaultHttpxClient", "llm").load("openai")(verify=_create_tls_context())


@cache
def _create_tls_context() -> ssl.SSLContext:
    """Return a TLS context with the trusted certificate authorities; reading them takes 20 ms."""
    from httpx import create_ssl_context

    return create_ssl_context()


def find_provider(provider: str) -> Provider:
    """Return the provider with this name. Raise ProviderUnknown."""
    try:
        return PROVIDERS[provider]
    except KeyError:
        raise ProviderUnknown(provider) from None


def create_chat_model(provider: str, model: str, **options: Any) -> ChatModel:
    """Return the provider's LangChain chat model, which makes each call once; `options` go to its constructor.

    Raise ProviderUnknown (a ValueError) or ProviderNotInstalled.
    """
    model_class = find_provider(provider).chat
    chat: ChatModel = OfflineChatModel() if model_class is None else model_class.create(provider, model, options)
    return chat


def create_embedding_model(provider: str, model: str, **options: Any) -> Any:
    """Return the provider's LangChain embedding model, which makes each call once; `options` go to its constructor.

    Raise ProviderUnknown, also for a provider without embedding models (offline has bundled ones).
    """
    model_class = find_provider(provider).embeddings
    if model_class is None:
        raise ProviderUnknown(provider)
    return model_class.create(provider, model, options)
