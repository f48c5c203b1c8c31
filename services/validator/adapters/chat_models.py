"""Chat models that are asked exactly once per call: whoever asks repeats, and says how often."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chassis.errors import FailedPrecondition, shortened
from libs.llm.chat import ChatModel
from libs.llm.errors import KeyMissing
from libs.llm.providers import create_chat_model, openai_connections, provider_named
from libs.llm.replies import text_of
from libs.llm.settings import LLMSettings
from services.validator.domain.errors import ModelKeyMissing

BODY_CHARS = 1000

_KEY_LIKE = re.compile(r"(?i)\b(?:sk-|bearer\s+)[A-Za-z0-9._*-]{6,}")


class ModelCallFailed(Exception):  # noqa: N818 - what happened, not whose fault it is
    """One call failed; the text may be shown to users: it holds no key and at most `BODY_CHARS` of a body (V-42)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered; token counts are None when the provider reported none."""

    text: str
    input_tokens: int | None
    output_tokens: int | None


class OneCallModel:
    """A chat model of one provider with the time limit of a call."""

    def __init__(
        self,
        model: ChatModel,
        provider: str,
        timeout_seconds: float,
        slots: asyncio.Semaphore,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._model = model
        self._name = "OpenAI" if provider_named(provider).speaks_openai else provider
        self._timeout_seconds = timeout_seconds
        self._slots = slots
        self.close = close

    async def ask(self, messages: Sequence[tuple[str, str]], **options: Any) -> Reply:
        """The reply to `messages`, (role, text) pairs. Raises ModelOffline, ModelCallFailed."""
        try:
            async with self._slots, asyncio.timeout(self._timeout_seconds):
                message = await self._model.ainvoke(messages, **options)
        except FailedPrecondition:
            raise
        except TimeoutError:
            raise ModelCallFailed(f"{self._name} API did not answer within {self._timeout_seconds:g} s") from None
        except Exception as error:
            # The library's own text may repeat what was sent, the key included.
            raise ModelCallFailed(self._told(error)) from None
        text = text_of(message)
        if not text.strip():
            raise ModelCallFailed(f"{self._name} API returned no content")
        counts = getattr(message, "usage_metadata", None) or {}
        return Reply(text, _count(counts.get("input_tokens")), _count(counts.get("output_tokens")))

    def _told(self, error: Exception) -> str:
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            body = getattr(getattr(error, "response", None), "text", "") or str(error)
            text = f"{self._name} API error {status}: {body}"
        else:
            text = f"{self._name} API call failed: {type(error).__name__}: {error}"
        return shortened(_KEY_LIKE.sub("***", text), BODY_CHARS)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


class OneCallModels:
    """Opens models when they are first needed, so that the service starts without keys (G-09)."""

    def __init__(self, settings: Callable[[], LLMSettings]) -> None:
        self._settings = settings
        self._open: dict[tuple[object, ...], OneCallModel] = {}
        self._slots: dict[tuple[str, str], asyncio.Semaphore] = {}

    def configured(self, temperature: float, *, json_object: bool) -> OneCallModel:
        """The model of LLM_PROVIDER and LLM_MODEL. Raises ModelKeyMissing."""
        settings = self._settings()
        wanted = settings.llm_temperature
        return self.model(
            settings.llm_provider,
            settings.llm_model,
            temperature if wanted is None else wanted,
            settings.llm_attempt_seconds,
            json_object=json_object,
        )

    def model(
        self, provider: str, name: str, temperature: float, timeout_seconds: float, *, json_object: bool = False
    ) -> OneCallModel:
        """A model by provider and name. Raises ModelKeyMissing; ProviderUnknown, ProviderNotInstalled."""
        key = (provider, name, temperature, timeout_seconds, json_object)
        if key not in self._open:
            self._open[key] = self._opened(provider, name, temperature, timeout_seconds, json_object=json_object)
        return self._open[key]

    def _opened(
        self, provider: str, name: str, temperature: float, timeout_seconds: float, *, json_object: bool
    ) -> OneCallModel:
        settings = self._settings()
        try:
            secret = settings.key_of(provider)
        except KeyMissing as error:
            raise ModelKeyMissing(error.variable) from None
        options: dict[str, Any] = {"temperature": temperature}
        close = None
        if secret:
            options["api_key"] = secret
        if provider == "openai" and settings.openai_base_url:
            options["base_url"] = settings.openai_base_url
        if provider_named(provider).speaks_openai:
            connections = openai_connections()
            options["http_async_client"], close = connections, connections.aclose
            if json_object:
                options["model_kwargs"] = {"response_format": {"type": "json_object"}}
        slots = self._slots.setdefault((provider, name), asyncio.Semaphore(settings.llm_concurrency))
        return OneCallModel(create_chat_model(provider, name, **options), provider, timeout_seconds, slots, close)

    async def close(self) -> None:
        """Closes all connections."""
        for model in self._open.values():
            if model.close is not None:
                await model.close()
        self._open.clear()
