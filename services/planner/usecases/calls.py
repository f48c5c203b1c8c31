"""Call a tool within a time limit, and validate its output; a misbehaving tool gets a failed result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel

from chassis.errors import shorten
from services.planner.domain.results import ToolResult, build_failed_result
from services.planner.domain.tools import ToolInput
from services.planner.usecases.ports import Tool
from services.planner.usecases.tools import NO_RESULTS

MAX_OUTPUT_CHARS = 262_144
MAX_USAGE = 10**12
"""Tokens and millionths of a dollar that a call may report; the sums of an execution must fit into 64 bits."""
_ERROR_CHARS = 500

_abandoned: set[asyncio.Task[ToolResult]] = set()


async def call_tool(
    tool: Tool,
    tool_input: ToolInput,
    *,
    max_output_chars: int = MAX_OUTPUT_CHARS,
    clock: Callable[[], float] = time.monotonic,
) -> ToolResult:
    """Return the result of a tool call. Raises nothing but CancelledError.

    A tool that does not stop when its time is over (P-45, P-145) is abandoned: its result is ignored.
    """
    if tool_input.is_out_of_scope:
        # Plans with such a step are rejected before; this is the last line of defence.
        return build_failed_result(
            f"collection {shorten(tool_input.collection or '')!r} does not begin with {tool_input.prefix!r}"
        )
    started = clock()
    task = asyncio.ensure_future(tool.run(tool_input))
    try:
        await asyncio.wait({task}, timeout=tool_input.seconds)
    finally:
        if not task.done():
            _abandon(task)
    if task.done():
        result = _get_result(task, max_output_chars)
    else:
        result = build_failed_result(f"Step timed out after {tool_input.seconds:g}s", timed_out=True)
    return result.model_copy(update={"execution_time_ms": round(1000 * (clock() - started))})


def _abandon(task: asyncio.Task[ToolResult]) -> None:
    """Cancel a call and hold a reference to it until it ends."""
    task.cancel()
    _abandoned.add(task)
    task.add_done_callback(_retrieve_error)


def _retrieve_error(task: asyncio.Task[ToolResult]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()


def _get_result(task: asyncio.Task[ToolResult], limit: int) -> ToolResult:
    """Return the result of a finished call, or a failed result."""
    if task.cancelled():
        return build_failed_result("the tool was cancelled")
    error = task.exception()
    return validate_result(task.result(), limit) if error is None else describe_tool_error(error)


def describe_tool_error(error: BaseException) -> ToolResult:
    """Return the failed result of a call that raised an error."""
    return build_failed_result(shorten(f"{type(error).__name__}: {error}", _ERROR_CHARS))


def validate_result(result: object, limit: int = MAX_OUTPUT_CHARS) -> ToolResult:
    """Return the result of a tool, or a failed result if it is invalid, empty, or has more than `limit` characters."""
    if not isinstance(result, ToolResult):
        return build_failed_result(f"Invalid tool output: expected ToolResult, got {type(result).__name__}")
    for name, value in (("token_usage", result.token_usage), ("cost_micro_usd", result.cost_micro_usd)):
        if value > MAX_USAGE:
            return build_failed_result(f"Invalid tool output: {name} must be at most {MAX_USAGE} (got {value})")
    size = _count_characters((result.output, result.error, result.confidence_factors, result.searched_collections))
    if size > limit:
        message = f"Tool output too large: {size} characters, at most {limit} are allowed"
        usage = {"token_usage": result.token_usage, "cost_micro_usd": result.cost_micro_usd}
        return build_failed_result(message).model_copy(update=usage)
    if result.success and result.output is None:
        return _fail(result, "Empty output")
    if result.success and isinstance(result.output, tuple) and not result.hits:
        return _fail(result, NO_RESULTS)
    return result


def _count_characters(value: object) -> int:
    """Return the characters of all texts, keys and numbers in a value; a container that it holds twice counts once."""
    total, values, counted = 0, [value], set[int]()
    while values:
        item = values.pop()
        if isinstance(item, BaseModel):
            item = dict(item)
        elif isinstance(item, Mapping | Sequence) and not isinstance(item, str | bytes):
            if id(item) in counted:
                continue
            counted.add(id(item))
        if isinstance(item, Mapping):
            values.extend((*item.keys(), *item.values()))
        elif isinstance(item, str | bytes):
            total += len(item)
        elif isinstance(item, Sequence):
            values.extend(item)
        elif item is not None:
            total += len(str(item))
    return total


def _fail(result: ToolResult, error: str) -> ToolResult:
    """Return the result as a failure with the same usage."""
    return result.model_copy(update={"success": False, "output": None, "error": error})
