"""A short trajectory in each format that the console names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILES = Path(__file__).parents[2] / "services/reflector/tests/files"
EXAMPLES = Path(__file__).parents[2] / "examples/formats"
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "add 1"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "2", "name": "add", "tool_call_id": "c1"},
    {"role": "assistant", "content": "It is 2."},
]
LANGCHAIN = [
    {"type": "human", "data": {"content": "add 1", "type": "human"}},
    {"type": "ai", "data": {"content": "It is 2.", "type": "ai"}},
]
LOG = {
    "question": "How many?",
    "question_ID": "q-7",
    "ground_truth": 8,
    "is_correct": False,
    "history": [{"content": "How many?", "role": "human"}, {"content": "Seven.", "name": "Counter", "role": "user"}],
}
SPAN = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "name": "chat",
    "startTimeUnixNano": "1",
    "endTimeUnixNano": "2",
    "attributes": [
        {"key": key, "value": {"stringValue": value}}
        for key, value in {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "add 1"}]}]',
            "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "It is 2."}]}]',
        }.items()
    ],
}

BY_NAME: Mapping[str, str] = {
    "hansei": json.dumps({"query": "add 1", "status": "failure", "steps": MESSAGES}),
    "OpenAI messages": json.dumps(MESSAGES),
    "Anthropic messages": (FILES / "anthropic.json").read_text(encoding="utf-8"),
    "LangChain messages": json.dumps(LANGCHAIN),
    "SWE-agent": (FILES / "swe_agent.traj").read_text(encoding="utf-8"),
    "ATIF": (FILES / "atif.json").read_text(encoding="utf-8"),
    "OpenTelemetry GenAI spans": json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}),
    "tau-bench": json.dumps({"task_id": 3, "trial": 1, "reward": 0.0, "traj": MESSAGES}),
    "STATE-Bench": (EXAMPLES / "state_bench.json").read_text(encoding="utf-8"),
    "Who&When": json.dumps(LOG),
}
"""Map the names in the console to the formats."""


def lines(count: int) -> str:
    """Return different trajectories, one a line."""
    return "\n".join(
        json.dumps({"query": f"add {number}", "status": "failure", "steps": MESSAGES}) for number in range(count)
    )
