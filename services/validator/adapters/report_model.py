"""The configured chat model as a writer of reports."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from chassis.errors import FailedPrecondition, shortened
from libs.llm.chat import ChatModel, nothing_to_close
from libs.llm.errors import KeyMissing
from libs.llm.providers import create_chat_model, openai_connections, provider_named
from libs.llm.replies import text_of
from libs.llm.settings import LLMSettings
from services.validator.domain.errors import ModelKeyMissing
from services.validator.usecases.generate_report import ModelAnswer

TEMPERATURE = 0.3
BODY_CHARS = 1000

_KEY_LIKE = re.compile(r"(?i)\b(?:sk-|bearer\s+)[A-Za-z0-9._*-]{6,}")


class ModelCallFailed(Exception):
    """One call failed; the text may be shown to users: it holds no key and at most `BODY_CHARS` of a body (V-42)."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A model with the connections it was given."""

    model: ChatModel
    name: str
    timeout_seconds: float
    slots: asyncio.Semaphore
    close: Callable[[], Awaitable[None]]


class ChatReportModel:
    """Asks the model of LLM_PROVIDER and LLM_MODEL for a JSON object, once per prompt: a run repeats, not this (V-36).

    Settings are read when the model is first needed, so that the service starts without a key and a missing one is
    reported per request (G-09).
    """

    def __init__(self, settings: Callable[[], LLMSettings]) -> None:
        self._settings = settings
        self._opened: _Opened | None = None

    async def answer(self, prompt: str) -> ModelAnswer:
        """The answer to one prompt. Raises ModelKeyMissing, ModelOffline, ModelCallFailed."""
        if self._opened is None:
            self._opened = _open(self._settings())
        message = await _asked(self._opened, prompt)
        text = text_of(message)
        if not text.strip():
            raise ModelCallFailed(f"{self._opened.name} API returned no content")
        counts = getattr(message, "usage_metadata", None) or {}
        return ModelAnswer(text, _count(counts.get("input_tokens")), _count(counts.get("output_tokens")))

    async def close(self) -> None:
        """Closes the connections to the provider."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None


def _open(settings: LLMSettings) -> _Opened:
    provider = settings.llm_provider
    try:
        key = settings.key_of(provider)
    except KeyMissing as error:
        raise ModelKeyMissing(error.variable) from None
    wanted = settings.llm_temperature
    options: dict[str, Any] = {"temperature": TEMPERATURE if wanted is None else wanted}
    close = nothing_to_close
    if key:
        options["api_key"] = key
    if provider == "openai" and settings.openai_base_url:
        options["base_url"] = settings.openai_base_url
    speaks_openai = provider_named(provider).speaks_openai
    if speaks_openai:
        connections = openai_connections()
        options["http_async_client"], close = connections, connections.aclose
        # Not an option of LangChain: that would have it parse the reply, and raise where V-40 wants the text.
        options["extra_body"] = {"response_format": {"type": "json_object"}}
    return _Opened(
        create_chat_model(provider, settings.llm_model, **options),
        "OpenAI" if speaks_openai else provider,
        settings.llm_attempt_seconds,
        asyncio.Semaphore(settings.llm_concurrency),
        close,
    )


async def _asked(opened: _Opened, prompt: str) -> Any:
    try:
        async with opened.slots, asyncio.timeout(opened.timeout_seconds):
            return await opened.model.ainvoke([("human", prompt)])
    except FailedPrecondition:
        raise
    except TimeoutError:
        raise ModelCallFailed(f"{opened.name} API did not answer within {opened.timeout_seconds:g} s") from None
    except Exception as error:
        # The library's own text may repeat what was sent, the key included.
        raise ModelCallFailed(_told(error, opened.name)) from None


def _told(error: BaseException, name: str) -> str:
    while not isinstance(getattr(error, "status_code", None), int) and error.__cause__ is not None:
        error = error.__cause__
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        body = getattr(getattr(error, "response", None), "text", "") or str(error)
        text = f"{name} API error {status}: {body}"
    else:
        text = f"{name} API call failed: {type(error).__name__}: {error}"
    return shortened(_KEY_LIKE.sub("***", text), BODY_CHARS)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
