"""Short ways to write down trajectories."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from services.reflector.domain.outcome import Outcome
from services.reflector.domain.trajectory import Step, ToolCall, Trajectory

MakeStep = Callable[[int], Step]

FAILED = Outcome(is_success=False, signal="reward")
SUCCEEDED = Outcome(is_success=True, signal="reward")


def says(content: str, name: str = "agent") -> MakeStep:
    return lambda index: Step(index=index, role="assistant", name=name, content=content)


def asks(content: str) -> MakeStep:
    return lambda index: Step(index=index, role="user", content=content)


def calls(tool: str, arguments: object = None, *, call_id: str = "", content: str = "") -> MakeStep:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    call = ToolCall(id=call_id, name=tool, arguments=text)
    return lambda index: Step(index=index, role="assistant", name="agent", content=content, tool_calls=(call,))


def returns(content: str, tool: str = "", *, call_id: str = "") -> MakeStep:
    return lambda index: Step(index=index, role="tool", name=tool, content=content, tool_call_id=call_id)


def steps(*makers: MakeStep) -> tuple[Step, ...]:
    return tuple(make(index) for index, make in enumerate(makers))


def build_trajectory(*makers: MakeStep, **fields: Any) -> Trajectory:
    """Return a failed trajectory of the steps."""
    defaults: dict[str, Any] = {
        "query": "do the task",
        "dataset": "test",
        "generated_answer": "",
        "reasoning_steps": (),
        "used_bullet_ids": (),
        "status": "failure",
    }
    return Trajectory(**{**defaults, "steps": steps(*makers), **fields})
