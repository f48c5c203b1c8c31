"""The configured chat model as a writer of reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from libs.llm.errors import KeyMissing
from libs.llm.providers import create_chat_model
from libs.llm.settings import LLMSettings
from services.validator.adapters.langchain_writer import LangChainWriter
from services.validator.domain.errors import ModelKeyMissing
from services.validator.usecases.ports import ModelAnswer

TEMPERATURE = 0.3


class _Writer(Protocol):
    async def answer(self, prompt: str) -> ModelAnswer:
        """Return the answer to one prompt."""

    async def close(self) -> None:
        """Close the connections."""


class ConfiguredReportModel:
    """Calls the model of LLM_PROVIDER and LLM_MODEL once per prompt, for a JSON object; the run retries (V-36).

    Settings are read when the model is first needed, so that the service starts without a key and a missing one is
    reported per request (G-09).
    """

    def __init__(self, settings: Callable[[], LLMSettings]) -> None:
        self._settings = settings
        self._writer: _Writer | None = None

    async def answer(self, prompt: str) -> ModelAnswer:
        """Return the answer to one prompt. Raises ModelKeyMissing, ModelOffline, ModelCallFailed."""
        if self._writer is None:
            self._writer = _choose_writer(self._settings())
        return await self._writer.answer(prompt)

    async def close(self) -> None:
        """Close the connections to the provider."""
        if self._writer is not None:
            await self._writer.close()
            self._writer = None


def _choose_writer(settings: LLMSettings) -> _Writer:
    provider, model = settings.llm_provider, settings.llm_model
    try:
        key = settings.get_key(provider)
    except KeyMissing as error:
        raise ModelKeyMissing(*error.variables) from None
    temperature = TEMPERATURE if settings.llm_temperature is None else settings.llm_temperature
    limits = (settings.llm_attempt_seconds, settings.llm_concurrency)
    if provider == "openai":
        from services.validator.adapters.openai_writer import OpenAIWriter  # with an HTTP client

        return OpenAIWriter(settings.openai_base_url, key, model, temperature, *limits)
    access = {"api_key": key} if key else {}
    chat_model = create_chat_model(provider, model, temperature=temperature, **access)
    return LangChainWriter(chat_model, provider, key, *limits)
