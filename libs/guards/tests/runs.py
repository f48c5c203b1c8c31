"""Build recorded runs for tests."""

from __future__ import annotations

from typing import Any

from chassis.targets.session import ToolCallRequest
from libs.guards.recorded_run import RecordedRun, RunCall, RunMessage


def call(step: int, tool: str, error: str = "", result: Any = None, /, **arguments: Any) -> RunCall:
    """Return a call with its result, or with an error."""
    return RunCall(step, ToolCallRequest(tool, arguments), error or result or {"status": "done"}, error)


def build_run(
    name: str, *calls: RunCall, is_success: bool = True, request: str = "Please help.", domain: str = ""
) -> RecordedRun:
    """Return a run of a task of its own: a request of the user, then the calls."""
    return RecordedRun(name, name, is_success, (RunMessage(0, "user", request), *calls), domain)
