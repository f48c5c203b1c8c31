"""Pairs every tool call of a trajectory with its result."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from libs.trajectories.operations import name_operation
from libs.trajectories.tool_errors import (
    READ_CHARS,
    ToolError,
    detect_tool_error,
    list_short_codes,
    normalize_message,
)

_OBSERVATION = re.compile(r"^(?:observation|tool (?:result|output)|result|output|観測|結果|出力)\s*[:：]\s*", re.I)
_ACTION = re.compile(r"^(?:action|tool call|行動)\s*[:：]\s*([\w.-]{1,80})[\s(:：]*(.*)", re.I | re.S)
_FENCE = re.compile(r"```([\w+-]{0,20})[^\n]{0,80}\n(.*?)```", re.S)
_READ_CODE_CHARS = 200_000
_MAX_CODES = 100
"""The number of codes that are searched in the steps of a trajectory: their cost grows with its text."""
_MAX_JSON_CHARS = 100_000
_SHELL = frozenset({"sh", "bash", "shell", "console"})


class StepCall(Protocol):
    """A tool call of a step; `arguments` is text, usually JSON."""

    @property
    def id(self) -> str:
        """Return the id of the call, which its result repeats, or an empty text."""

    @property
    def name(self) -> str:
        """Return the name of the tool."""

    @property
    def arguments(self) -> str:
        """Return the arguments."""


class TrajectoryStep(Protocol):
    """One step of a trajectory; `index` is its position, from 0."""

    @property
    def index(self) -> int:
        """Return the position."""

    @property
    def role(self) -> str:
        """Return system, user, assistant or tool."""

    @property
    def speaker(self) -> str:
        """Return the agent or tool that speaks, or else the role."""

    @property
    def name(self) -> str:
        """Return the name of the agent or tool, or an empty text."""

    @property
    def content(self) -> str:
        """Return the text of the step."""

    @property
    def tool_calls(self) -> Sequence[StepCall]:
        """Return the requested tool calls."""

    @property
    def tool_call_id(self) -> str:
        """Return the id of the call that a result belongs to, or an empty text."""


class WrittenCall(NamedTuple):
    """A tool call that an agent wrote as text."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call and its result.

    ``operation`` names the requested action as precisely as the arguments allow (`git commit`). ``result_step`` is
    None without a result.
    """

    call_step: int
    agent: str
    tool: str
    operation: str
    arguments: str
    result_step: int | None = None
    output: str = ""
    error: ToolError | None = None

    @property
    def is_success(self) -> bool:
        """Return whether there is a result without an error."""
        return self.result_step is not None and self.error is None

    @property
    def message(self) -> str:
        """Return the error message, empty without an error."""
        return self.error.message if self.error is not None else ""

    @property
    def error_kind(self) -> str:
        """Return `operation: normalized message`, equal for equal errors; empty without an error."""
        return f"{self.operation}: {self.error.kind}" if self.error is not None else ""

    @property
    def last_step(self) -> int:
        """Return the step of the result, or of the call without a result."""
        return self.call_step if self.result_step is None else self.result_step


def extract_actions(steps: Sequence[TrajectoryStep]) -> tuple[ToolUse, ...]:
    """Return every tool call of `steps` with its result, in the order of the calls, in one pass.

    A result belongs to the newest open call with its id (ids may repeat within a trajectory), else to the oldest
    open call of its tool, else to the oldest open call. A result without a call becomes an action of the last step
    with a code block since the previous result, else of the previous step. Short codes stay in the
    error signature if they occur first in the result of a failing call: then the tool made them, not the task.
    """
    calls = _Calls()
    since_result: list[TrajectoryStep] = []
    for step in steps:
        if _is_result(step):
            calls.add_result(step, since_result)
            del since_result[:-1]
        else:
            calls.add_calls(step)
            if step.role != "system":
                since_result.append(step)
    return _keep_codes_of_tools(calls.sort_by_step(), steps)


def _keep_codes_of_tools(actions: Sequence[ToolUse], steps: Sequence[TrajectoryStep]) -> tuple[ToolUse, ...]:
    failing = {action.last_step for action in actions if action.error is not None}
    is_new: dict[str, bool] = {}

    def keep(action: ToolUse) -> ToolUse:
        error = action.error
        if error is None or "<id>" not in error.kind:
            return action
        codes = list_short_codes(error.message)
        for code in codes:
            if code not in is_new and len(is_new) < _MAX_CODES:
                is_new[code] = next((step.index for step in steps if _has_text(step, code)), None) in failing
        new_codes = [code for code in codes if is_new.get(code)]
        return replace(action, error=replace(error, kind=normalize_message(error.message, new_codes)))

    return tuple(map(keep, actions))


def _has_text(step: TrajectoryStep, text: str) -> bool:
    return text in step.content or any(text in call.arguments for call in step.tool_calls)


def build_call_signature(action: ToolUse) -> tuple[str, str]:
    """Return the tool and the arguments, with sorted keys where they are JSON."""
    if len(action.arguments) <= _MAX_JSON_CHARS:
        try:
            return action.tool, json.dumps(json.loads(action.arguments), sort_keys=True, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass  # Not JSON: compare the text.
    return action.tool, " ".join(action.arguments.split())


class _Calls:
    """The calls of a trajectory and the open ones among them; every lookup takes amortised constant time."""

    def __init__(self) -> None:
        self._actions: list[ToolUse] = []
        self._by_id: dict[str, deque[int]] = {}
        self._by_tool: dict[str, deque[int]] = {}
        self._oldest_first: deque[int] = deque()

    def add_calls(self, step: TrajectoryStep) -> None:
        for call in _find_calls(step):
            position = len(self._actions)
            self._actions.append(_create_action(step, call.name, call.arguments))
            if call.id:
                self._by_id.setdefault(call.id, deque()).appendleft(position)
            self._by_tool.setdefault(call.name, deque()).append(position)
            self._oldest_first.append(position)

    def add_result(self, result: TrajectoryStep, before: Sequence[TrajectoryStep]) -> None:
        """Assign `result` to its call, or to a new call of the steps `before` it."""
        none: deque[int] = deque()
        queues = (self._by_id.get(result.tool_call_id, none), self._by_tool.get(result.name, none), self._oldest_first)
        for queue in queues:
            while queue:
                position = queue.popleft()
                if self._actions[position].result_step is None:
                    self._actions[position] = _add_result(self._actions[position], result)
                    return
        self._actions.append(_add_result(_build_code_action(before, result), result))

    def sort_by_step(self) -> tuple[ToolUse, ...]:
        return tuple(sorted(self._actions, key=lambda action: action.call_step))


def _is_result(step: TrajectoryStep) -> bool:
    return step.role == "tool" or (step.role == "assistant" and bool(_OBSERVATION.match(step.content[:40])))


def _find_calls(step: TrajectoryStep) -> Sequence[StepCall]:
    if step.tool_calls or step.role != "assistant":
        return step.tool_calls
    written = _ACTION.match(step.content[:READ_CHARS])
    return [WrittenCall(written.group(1), written.group(2).strip())] if written else []


def _create_action(step: TrajectoryStep, tool: str, arguments: str) -> ToolUse:
    return ToolUse(step.index, step.speaker, tool, name_operation(tool, arguments), arguments)


def _build_code_action(before: Sequence[TrajectoryStep], result: TrajectoryStep) -> ToolUse:
    """Return an action for a result without a call."""
    for step in reversed(before):
        code = _FENCE.search(step.content[:_READ_CODE_CHARS])
        if code is not None:
            language = code.group(1).lower()
            return _create_action(step, "shell" if language in _SHELL else language or result.speaker, code.group(2))
    return _create_action(before[-1] if before else result, result.speaker, "")


def _add_result(action: ToolUse, result: TrajectoryStep) -> ToolUse:
    label = _OBSERVATION.match(result.content[:40])
    output = result.content[label.end() :] if label else result.content
    return replace(action, result_step=result.index, output=output, error=detect_tool_error(output))
