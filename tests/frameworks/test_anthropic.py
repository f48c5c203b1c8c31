"""Anthropic's client with a scripted server: messages in the form in which it writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.agent_models import AgentModel, serve_agent_model
from tests.frameworks.scripted_runs import RUNS, TASK, check_run

pytest.importorskip("anthropic", reason="the frameworks are not installed: make test-frameworks")
from anthropic import Anthropic
from anthropic.types import ToolUseBlock

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


@pytest.fixture(scope="module")
def model() -> Iterator[AgentModel]:
    with serve_agent_model() as serving:
        yield serving


def invert(block: ToolUseBlock) -> dict[str, Any]:
    x = block.input["x"]
    content, is_error = ("x must not be 0", True) if x == 0 else (str(1 / x), False)
    return {"type": "tool_result", "tool_use_id": block.id, "content": content, "is_error": is_error}


@pytest.mark.parametrize("name", RUNS)
def test_its_messages_are_read(model: AgentModel, name: str) -> None:
    model.replies = [reply if isinstance(reply, str) else ("invert", {"x": reply}) for reply in RUNS[name]]
    messages: list[Any] = [{"role": "user", "content": TASK}]
    tools: list[Any] = [{"name": "invert", "description": "Invert a number.", "input_schema": SCHEMA}]
    with Anthropic(base_url=model.url, api_key="none") as client:
        while messages[-1]["role"] == "user":
            reply = client.messages.create(
                model="scripted", max_tokens=100, system="Be brief.", messages=messages, tools=tools
            )
            messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
            results = [invert(block) for block in reply.content if block.type == "tool_use"]
            if results:
                messages.append({"role": "user", "content": results})
    document = {"system": "Be brief.", "messages": messages}
    check_run(json.dumps(document).encode(), name, "anthropic")
