"""Reports from an OpenAI-compatible server, by its wire protocol.

A client library costs three times the CPU of the call itself, and hides status and body, which a run reports (V-42).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from libs.llm.replies import read_text
from services.validator.adapters.model_calls import MAX_REPLY_BYTES, ModelCallFailed, read_token_count
from services.validator.usecases.ports import ModelAnswer

OPENAI_URL = "https://api.openai.com/v1"


class OpenAIWriter:
    """Requests one chat completion with a JSON object per prompt."""

    def __init__(
        self, base_url: str, key: str, model: str, temperature: float, timeout_seconds: float, concurrency: int
    ) -> None:
        self._key = key
        self._options = {"model": model, "temperature": temperature, "response_format": {"type": "json_object"}}
        self._timeout_seconds = timeout_seconds
        self._slots = asyncio.Semaphore(concurrency)
        self._url = f"{(base_url or OPENAI_URL).rstrip('/')}/chat/completions"
        self._client = httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=None)  # noqa: S113

    async def answer(self, prompt: str) -> ModelAnswer:
        """Return the answer to one prompt. Raises ModelCallFailed."""
        request = {**self._options, "messages": [{"role": "user", "content": prompt}]}
        try:
            async with self._slots, asyncio.timeout(self._timeout_seconds):
                status, body = await self._post(request)
        except TimeoutError:
            raise ModelCallFailed(f"OpenAI API did not answer within {self._timeout_seconds:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._build_failure(f"OpenAI API call failed: {type(error).__name__}: {error}") from None
        if status != httpx.codes.OK:
            raise self._build_failure(f"OpenAI API error {status}: {body.decode('utf-8', 'replace')}")
        return self._decode_answer(body)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post(self, request: dict[str, Any]) -> tuple[int, bytes]:
        async with self._client.stream("POST", self._url, json=request) as response:
            parts: list[bytes] = []
            size = 0
            async for part in response.aiter_bytes():
                size += len(part)
                if size > MAX_REPLY_BYTES:
                    raise self._build_failure(f"OpenAI API returned more than {MAX_REPLY_BYTES} bytes")
                parts.append(part)
            return response.status_code, b"".join(parts)

    def _decode_answer(self, body: bytes) -> ModelAnswer:
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):
            raise self._build_failure("OpenAI API answered something that is not JSON") from None
        text = read_text(_get_content(reply))
        if not text.strip():
            raise ModelCallFailed("OpenAI API returned no content")
        usage = reply.get("usage")
        counts: dict[str, Any] = usage if isinstance(usage, dict) else {}
        return ModelAnswer(
            text, read_token_count(counts.get("prompt_tokens")), read_token_count(counts.get("completion_tokens"))
        )

    def _build_failure(self, text: str) -> ModelCallFailed:
        return ModelCallFailed(text, self._key)


def _get_content(reply: object) -> object:
    """Return the content of the first choice; None for a reply without one."""
    choices = reply.get("choices") if isinstance(reply, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message.get("content") if isinstance(message, dict) else None
