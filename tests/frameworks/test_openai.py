"""OpenAI's client with scripted completions: chat messages in the form in which it writes them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.frameworks.scripted_runs import RUNS, TASK, check_run

pytest.importorskip("openai", reason="the frameworks are not installed: make test-frameworks")
from openai import OpenAI

TOOLS: list[Any] = [{"type": "function", "function": {"name": "invert", "parameters": {"type": "object"}}}]


def write_completion(reply: int | str) -> dict[str, Any]:
    """Return a completion as the API sends it; a number is a call of `invert`."""
    message: dict[str, Any] = {"role": "assistant", "content": reply}
    if isinstance(reply, int):
        call = {"name": "invert", "arguments": json.dumps({"x": reply})}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": f"c{reply}", "type": "function", "function": call}]
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}


def converse(replies: list[int | str]) -> list[Any]:
    """Return the messages of a conversation with these replies of the model."""
    remaining = iter(replies)
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=write_completion(next(remaining))))
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": TASK}]
    http_client: Any = httpx.Client(transport=transport)
    with OpenAI(api_key="none", base_url="http://scripted", http_client=http_client) as client:
        while messages[-1]["role"] != "assistant":
            completion = client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)
            message = completion.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or ():
                assert call.type == "function"
                x = json.loads(call.function.arguments)["x"]
                result = "Error: x must not be 0" if x == 0 else str(1 / x)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return messages


@pytest.mark.parametrize("name", RUNS)
def test_its_messages_are_read(name: str) -> None:
    check_run(json.dumps({"messages": converse(RUNS[name])}).encode(), name, "openai")
