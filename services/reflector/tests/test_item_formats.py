"""Conversations of the Responses API, the Agents SDK and Pydantic AI, in the forms that their libraries write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import Format, RecordedTrajectory


def read(document: object, format_: Format) -> RecordedTrajectory:
    file = read_trajectories(json.dumps(document).encode(), "given")
    assert file.format == format_
    (recorded,) = file.trajectories
    return recorded


def steps(recorded: RecordedTrajectory) -> list[tuple[str, str, str]]:
    return [(step.role, step.name, step.content) for step in recorded.trajectory.steps]


# As `RunResult.to_input_list()` of openai-agents 0.24 writes a trajectory.
ITEMS: list[dict[str, Any]] = [
    {"content": "invert something", "role": "user"},
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Try zero."}]},
    {"arguments": '{"x": 0}', "call_id": "c1", "name": "invert", "type": "function_call", "id": "f1"},
    {"call_id": "c1", "output": "Error: x must not be 0", "type": "function_call_output"},
    {"arguments": '{"x": 2}', "call_id": "c2", "name": "invert", "type": "function_call", "id": "f2"},
    {"call_id": "c2", "output": "0.5", "type": "function_call_output"},
    {
        "id": "m",
        "content": [{"annotations": [], "text": "It is 0.5.", "type": "output_text"}],
        "role": "assistant",
        "status": "completed",
        "type": "message",
    },
]
CONVERSATION = [
    ("user", "", "invert something"),
    ("assistant", "", "Try zero."),
    ("tool", "invert", "Error: x must not be 0"),
    ("assistant", "", ""),
    ("tool", "invert", "0.5"),
    ("assistant", "", "It is 0.5."),
]


def test_items_are_a_conversation() -> None:
    recorded = read(ITEMS, "openai_responses")
    assert steps(recorded) == CONVERSATION
    assert recorded.trajectory.query == "invert something"
    assert recorded.trajectory.generated_answer == "It is 0.5."
    assert recorded.trajectory.steps[1].tool_calls[0].arguments == '{"x": 0}'


def test_the_outcome_stands_beside_the_items() -> None:
    recorded = read({"items": ITEMS, "reward": 0, "task_id": "t"}, "openai_responses")
    assert (recorded.trajectory.status, recorded.trajectory.reward, recorded.trajectory.task_id) == ("failure", 0, "t")


def test_a_response_is_read_with_its_input() -> None:
    response = {"object": "response", "id": "resp_1", "status": "completed", "input": "invert something"}
    recorded = read({**response, "output": ITEMS[1:]}, "openai_responses")
    assert steps(recorded) == CONVERSATION
    assert (recorded.trajectory.id, recorded.trajectory.status) == ("resp_1", "success")


def part(kind: str, **fields: object) -> dict[str, object]:
    return {"part_kind": kind, **fields}


def return_part(call_id: str, content: object, outcome: str) -> dict[str, object]:
    return part("tool-return", tool_name="divide", tool_call_id=call_id, content=content, outcome=outcome)


def call_part(call_id: str, divisor: int) -> dict[str, object]:
    return part("tool-call", tool_name="divide", args={"a": 1, "b": divisor}, tool_call_id=call_id)


# As `all_messages_json` of pydantic-ai 2.68 writes a trajectory, without the fields that hansei does not read.
MESSAGES: list[dict[str, Any]] = [
    {"kind": "request", "parts": [part("system-prompt", content="be exact"), part("user-prompt", content="divide 1")]},
    {"kind": "response", "parts": [call_part("c1", 0)]},
    {"kind": "request", "parts": [return_part("c1", "b must not be 0", "retried")]},
    {"kind": "response", "parts": [part("thinking", content="b was zero"), call_part("c2", 2)]},
    {"kind": "request", "parts": [return_part("c2", {"quotient": 0.5}, "success")]},
    {"kind": "response", "parts": [part("text", content="It is 0.5.")]},
]


def test_messages_of_pydantic_ai_are_a_conversation() -> None:
    recorded = read(MESSAGES, "pydantic_ai")
    assert steps(recorded) == [
        ("system", "", "be exact"),
        ("user", "", "divide 1"),
        ("assistant", "", ""),
        ("tool", "divide", "Error: b must not be 0"),
        ("assistant", "", "b was zero"),
        ("tool", "divide", '{"quotient": 0.5}'),
        ("assistant", "", "It is 0.5."),
    ]
    assert recorded.trajectory.generated_answer == "It is 0.5."


def test_retry_prompts_of_older_versions_are_errors() -> None:
    retry = part("retry-prompt", tool_name="divide", tool_call_id="c1", content="b must not be 0")
    older = [*MESSAGES[:2], {"kind": "request", "parts": [retry]}, *MESSAGES[3:]]
    assert steps(read(older, "pydantic_ai")) == steps(read(MESSAGES, "pydantic_ai"))
    invalid = {"kind": "request", "parts": [part("retry-prompt", content="answer with JSON")]}
    assert steps(read([*MESSAGES, invalid], "pydantic_ai"))[-1] == ("user", "", "Error: answer with JSON")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([*ITEMS, {"type": "function_call"}], "trajectory.items[7].name"),
        ([*ITEMS, {"type": "message", "role": "oracle"}], "trajectory.items[7].role: 'oracle' must be"),
        ([*MESSAGES, {"kind": "response", "parts": [3]}], "trajectory.messages[6].parts[0]"),
        ([*MESSAGES, {"kind": "request", "parts": [{"part_kind": 3.5, "content": []}, 1]}], "messages[6].parts[1]"),
    ],
)
def test_broken_conversations_are_refused_with_position_and_field(document: object, problem: str) -> None:
    with pytest.raises(MalformedTrajectory) as refused:
        read_trajectories(json.dumps(document).encode(), "given")
    assert problem in str(refused.value)
