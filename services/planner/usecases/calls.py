"""One call of a tool, whatever the tool does: it ends within its time, and its output is what it must be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from chassis.errors import shorten
from services.planner.domain.results import ToolResult, failed_call
from services.planner.domain.tools import ToolInput
from services.planner.usecases.ports import Tool
from services.planner.usecases.tools import NO_RESULTS

MAX_OUTPUT_CHARS = 262_144
_ERROR_CHARS = 500

_abandoned: set[asyncio.Task[ToolResult]] = set()


async def call_tool(
    tool: Tool,
    tool_input: ToolInput,
    *,
    max_output_chars: int = MAX_OUTPUT_CHARS,
    clock: Callable[[], float] = time.monotonic,
) -> ToolResult:
    """What the tool gave; never raises anything but CancelledError.

    A tool that does not stop when its time is over (P-45, P-145) is left behind: it can finish, but nobody listens.
    """
    if tool_input.is_out_of_scope:
        # No plan that is taken in holds such a step; should one ever come this far, it ends here.
        return failed_call(
            f"collection {shorten(tool_input.collection or '')!r} does not begin with {tool_input.prefix!r}"
        )
    started = clock()
    task = asyncio.ensure_future(tool.run(tool_input))
    try:
        await asyncio.wait({task}, timeout=tool_input.seconds)
    finally:
        if not task.done():
            _leave(task)
    if task.done():
        result = _checked(task, max_output_chars)
    else:
        result = failed_call(f"Step timed out after {tool_input.seconds:g}s", timed_out=True)
    return result.model_copy(update={"execution_time_ms": round(1000 * (clock() - started))})


def _leave(task: asyncio.Task[ToolResult]) -> None:
    """Cancels a call and keeps it until it heeds that."""
    task.cancel()
    _abandoned.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[ToolResult]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()


def _checked(task: asyncio.Task[ToolResult], limit: int) -> ToolResult:
    """The result of a finished call, or why it is none."""
    if task.cancelled():
        return failed_call("the tool was cancelled")
    error = task.exception()
    if error is not None:
        return failed_call(shorten(f"{type(error).__name__}: {error}", _ERROR_CHARS))
    result: object = task.result()
    if not isinstance(result, ToolResult):
        return failed_call(f"Invalid tool output: expected ToolResult, got {type(result).__name__}")
    size = len(result.text or "") + sum(len(hit.content) for hit in result.hits)
    if isinstance(result.output, dict):
        size += len(str(result.output))
    if size > limit:
        return _failed_steps(result, f"Tool output too large: {size} characters, at most {limit} are allowed")
    if result.success and result.output is None:
        return _failed_steps(result, "Empty output")
    if result.success and isinstance(result.output, tuple) and not result.hits:
        return _failed_steps(result, NO_RESULTS)
    return result


def _failed_steps(result: ToolResult, error: str) -> ToolResult:
    """The result as a failure that still counts what it cost."""
    return result.model_copy(update={"success": False, "output": None, "error": error})
