"""The tool calls of a trajectory as evidence for a curator, which counts the calls of several tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence

from chassis.json_texts import format_as_text
from libs.trajectories.actions import ToolUse
from libs.trajectories.excerpts import shorten_text
from services.reflector.domain.reflection import ObservedCall
from services.reflector.domain.repairs import find_repairs

MAX_CALLS = 60
_VALUE_CHARS = 120
_TEXT_CHARS = 400
_MAX_ARGUMENTS = 16
_MAX_LEVELS = 3
_MAX_JSON_CHARS = 20_000


def observe_calls(actions: Sequence[ToolUse]) -> tuple[ObservedCall, ...]:
    """Return the first calls that have a result, with the call that repaired each failed one."""
    answered = [action for action in actions if action.result_step is not None][:MAX_CALLS]
    repairs = find_repairs(answered)
    positions = {id(action): position for position, action in enumerate(answered)}
    return tuple(
        ObservedCall(
            operation=shorten_text(action.operation, _VALUE_CHARS),
            arguments=shorten_arguments(action.arguments),
            error=action.error.kind if action.error is not None else "",
            repaired_by=positions[id(repairs[position].fixed)] if position in repairs else None,
            step=action.call_step,
            tool="" if action.tool == action.operation else shorten_text(action.tool, _VALUE_CHARS),
        )
        for position, action in enumerate(answered)
    )


def shorten_arguments(arguments: str) -> str:
    """Return a flat JSON object, nested names joined by dots and long values cut; other text as an excerpt."""
    if len(arguments) <= _MAX_JSON_CHARS and arguments.lstrip()[:1] == "{":
        try:
            flat: dict[str, object] = {}
            _flatten(json.loads(arguments), "", flat, 0)
            return json.dumps(flat, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass  # Not JSON: an excerpt is evidence too.
    return shorten_text(arguments, _TEXT_CHARS)


def _flatten(value: object, name: str, flat: dict[str, object], level: int) -> None:
    if isinstance(value, dict) and level < _MAX_LEVELS:
        for key, item in value.items():
            _flatten(item, f"{name}.{key}" if name else shorten_text(str(key)), flat, level + 1)
    elif len(flat) < _MAX_ARGUMENTS:
        text = format_as_text(value)
        flat[name] = shorten_text(text, _VALUE_CHARS) if isinstance(value, str) or len(text) > _VALUE_CHARS else value
