"""Reports from providers that are called through LangChain."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from libs.llm.chat import OfflineChatModel
from libs.llm.errors import ModelOffline
from services.validator.adapters.langchain_writer import LangChainWriter
from services.validator.adapters.model_calls import BODY_CHARS, ModelCallFailed
from services.validator.usecases.ports import ModelAnswer


class Model:
    """Answers with a prepared message, or raises."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.calls: list[Any] = []

    def invoke(self, messages: Any, /, **options: Any) -> Any:
        raise AssertionError("services ask asynchronously")

    async def ainvoke(self, messages: Any, /, **options: Any) -> Any:
        self.calls.append(messages)
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is None:
            await asyncio.Event().wait()
        return self._answer


def writer(answer: Any, timeout_seconds: float = 30) -> LangChainWriter:
    return LangChainWriter(Model(answer), "gemini", "the-secret", timeout_seconds, 2)


async def test_a_message_is_an_answer_with_its_tokens() -> None:
    message = SimpleNamespace(content=[{"type": "text", "text": "{}"}], usage_metadata={"input_tokens": 7})
    assert await writer(message).answer("問い") == ModelAnswer("{}", 7, None)


async def test_failures_name_provider_and_status_and_no_key() -> None:  # V-42
    refuse_run = RuntimeError("quota of the-secret is used up " + "x" * 5000)
    refuse_run.status_code = 429  # type: ignore[attr-defined]
    wrapped = RuntimeError("wrapped")
    wrapped.__cause__ = refuse_run
    with pytest.raises(ModelCallFailed, match=r"^gemini API error 429: quota of \*\*\*") as raised:
        await writer(wrapped).answer("x")
    assert len(str(raised.value)) <= BODY_CHARS
    with pytest.raises(ModelCallFailed, match="gemini API call failed: OSError: unreachable"):
        await writer(OSError("unreachable")).answer("x")


async def test_an_empty_or_missing_message_is_a_failure() -> None:
    with pytest.raises(ModelCallFailed, match=r"^gemini API returned no content$"):
        await writer(SimpleNamespace(content=" ")).answer("x")
    with pytest.raises(ModelCallFailed, match="did not answer within 0 s"):
        await writer(None, timeout_seconds=0).answer("x")


async def test_offline_is_no_failed_call() -> None:
    with pytest.raises(ModelOffline):
        await LangChainWriter(OfflineChatModel(), "offline", "", 30, 2).answer("x")
