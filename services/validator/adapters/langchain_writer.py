"""Reports from any other provider, through its LangChain model."""

from __future__ import annotations

import asyncio

from chassis.errors import FailedPrecondition
from libs.llm.chat import ChatModel
from libs.llm.replies import read_text
from services.validator.adapters.model_calls import ModelCallFailed, read_token_count
from services.validator.usecases.ports import ModelAnswer


class LangChainWriter:
    """Calls the model once per prompt."""

    def __init__(self, model: ChatModel, provider: str, key: str, timeout_seconds: float, concurrency: int) -> None:
        self._model = model
        self._provider = provider
        self._key = key
        self._timeout_seconds = timeout_seconds
        self._slots = asyncio.Semaphore(concurrency)

    async def answer(self, prompt: str) -> ModelAnswer:
        """Return the answer to one prompt. Raises ModelOffline, ModelCallFailed."""
        try:
            async with self._slots, asyncio.timeout(self._timeout_seconds):
                message = await self._model.ainvoke([("human", prompt)])
        except FailedPrecondition:
            raise
        except TimeoutError:
            raise ModelCallFailed(f"{self._provider} API did not answer within {self._timeout_seconds:g} s") from None
        except Exception as error:
            # The library's own text may repeat the request.
            raise ModelCallFailed(self._describe(error), self._key) from None
        text = read_text(message)
        if not text.strip():
            raise ModelCallFailed(f"{self._provider} API returned no content")
        counts = getattr(message, "usage_metadata", None) or {}
        return ModelAnswer(
            text, read_token_count(counts.get("input_tokens")), read_token_count(counts.get("output_tokens"))
        )

    async def close(self) -> None:
        """Do nothing; the library of the model owns the connections."""

    def _describe(self, error: BaseException) -> str:
        while not isinstance(getattr(error, "status_code", None), int) and error.__cause__ is not None:
            error = error.__cause__
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            return f"{self._provider} API error {status}: {error}"
        return f"{self._provider} API call failed: {type(error).__name__}: {error}"
