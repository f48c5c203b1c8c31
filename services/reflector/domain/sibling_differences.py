"""Finds where two trajectories of one task first differ."""

from __future__ import annotations

import json
from collections.abc import Sequence

from services.reflector.domain.trajectory import Step, ToolCall


def find_first_difference(steps: Sequence[Step], others: Sequence[Step]) -> int:
    """Return the index of the first of `others` that differs from `steps`; their number if none does.

    Where both have tool calls, the calls are compared, since no two models word a message alike.
    """
    calls, other_calls = _list_calls(steps), _list_calls(others)
    if calls and other_calls:
        for (_, call), (index, other) in zip(calls, other_calls, strict=False):
            if call != other:
                return index
        if len(other_calls) > len(calls):
            return other_calls[len(calls)][0]
        return min(len(others), other_calls[-1][0] + 1)
    for step, other_step in zip(steps, others, strict=False):
        if (step.role, step.content.strip()) != (other_step.role, other_step.content.strip()):
            return other_step.index
    return min(len(steps), len(others))


def _list_calls(steps: Sequence[Step]) -> list[tuple[int, tuple[str, str]]]:
    """Return the calls in order, with their steps; arguments that are equal as JSON are equal texts."""
    return [(step.index, (call.name, _normalize(call))) for step in steps for call in step.tool_calls]


def _normalize(call: ToolCall) -> str:
    try:
        return json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return " ".join(call.arguments.split())
