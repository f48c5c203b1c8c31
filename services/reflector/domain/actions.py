"""Pairs what a run did with what came back: every tool call with its result."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.reflector.domain.operations import operation_of
from services.reflector.domain.tool_errors import READ_CHARS, ToolError, tool_error
from services.reflector.domain.trajectory import Step, ToolCall

_OBSERVATION = re.compile(r"^(?:observation|tool (?:result|output)|result|output|観測|結果|出力)\s*[:：]\s*", re.I)
_ACTION = re.compile(r"^(?:action|tool call|行動)\s*[:：]\s*([\w.-]{1,80})[\s(:：]*(.*)", re.I | re.S)
_FENCE = re.compile(r"```([\w+-]{0,20})[^\n]{0,80}\n(.*?)```", re.S)
_READ_CODE_CHARS = 200_000
_MAX_JSON_CHARS = 100_000
_SHELL = frozenset({"sh", "bash", "shell", "console"})


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call and its result.

    ``operation`` is what the tool was asked for, as far as a name tells it (`git commit`). ``result_step`` is None
    while nothing came back; ``error`` is what it failed with.
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
    def succeeded(self) -> bool:
        """A result came back and it reports no failure."""
        return self.result_step is not None and self.error is None

    @property
    def message(self) -> str:
        """What it failed with, empty if it did not fail."""
        return self.error.message if self.error is not None else ""

    @property
    def error_kind(self) -> str:
        """`operation: normalised message`, the same for the same error in every run; empty if it did not fail."""
        return f"{self.operation}: {self.error.kind}" if self.error is not None else ""

    @property
    def last_step(self) -> int:
        """The step at which the outcome was known, or else the call."""
        return self.call_step if self.result_step is None else self.result_step


def actions_of(steps: Sequence[Step]) -> tuple[Action, ...]:
    """Every tool call of `steps` with its result, in the order of the calls; one pass.

    A result answers the newest open call with its id (ids may repeat within a run), else the oldest open call of its
    tool, else the oldest open call. A result without any call becomes an action of the last step since the result
    before it that has a code block, which is what ran, else of the step right before it.
    """
    calls = _Calls()
    since_result: list[Step] = []
    for step in steps:
        if _is_result(step):
            calls.answer(step, since_result)
            del since_result[:-1]
        else:
            calls.open(step)
            if step.role != "system":
                since_result.append(step)
    return calls.in_order()


def signature(action: Action) -> tuple[str, str]:
    """The same for calls of one tool with the same arguments, whatever the order of their keys."""
    if len(action.arguments) <= _MAX_JSON_CHARS:
        try:
            return action.tool, json.dumps(json.loads(action.arguments), sort_keys=True, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass  # No JSON: compared as text.
    return action.tool, " ".join(action.arguments.split())


class _Calls:
    """The calls of a run and which of them are still open; every lookup is amortised constant time."""

    def __init__(self) -> None:
        self._actions: list[Action] = []
        self._by_id: dict[str, deque[int]] = {}
        self._by_tool: dict[str, deque[int]] = {}
        self._oldest_first: deque[int] = deque()

    def open(self, step: Step) -> None:
        for call in _calls_in(step):
            place = len(self._actions)
            self._actions.append(_asked(step, call.name, call.arguments))
            if call.id:
                self._by_id.setdefault(call.id, deque()).appendleft(place)
            self._by_tool.setdefault(call.name, deque()).append(place)
            self._oldest_first.append(place)

    def answer(self, result: Step, before: Sequence[Step]) -> None:
        """Gives `result` to its call, or to a new one of the steps `before` it."""
        none: deque[int] = deque()
        queues = (self._by_id.get(result.tool_call_id, none), self._by_tool.get(result.name, none), self._oldest_first)
        for queue in queues:
            while queue:
                place = queue.popleft()
                if self._actions[place].result_step is None:
                    self._actions[place] = _with_result(self._actions[place], result)
                    return
        self._actions.append(_with_result(_unannounced(before, result), result))

    def in_order(self) -> tuple[Action, ...]:
        return tuple(sorted(self._actions, key=lambda action: action.call_step))


def _is_result(step: Step) -> bool:
    return step.role == "tool" or (step.role == "assistant" and bool(_OBSERVATION.match(step.content[:40])))


def _calls_in(step: Step) -> Sequence[ToolCall]:
    if step.tool_calls or step.role != "assistant":
        return step.tool_calls
    written = _ACTION.match(step.content[:READ_CHARS])
    return [ToolCall(name=written.group(1), arguments=written.group(2).strip())] if written else []


def _asked(step: Step, tool: str, arguments: str) -> Action:
    return Action(step.index, step.speaker, tool, operation_of(tool, arguments), arguments)


def _unannounced(before: Sequence[Step], result: Step) -> Action:
    """What ran when nobody announced a call."""
    for step in reversed(before):
        code = _FENCE.search(step.content[:_READ_CODE_CHARS])
        if code is not None:
            language = code.group(1).lower()
            return _asked(step, "shell" if language in _SHELL else language or result.speaker, code.group(2))
    return _asked(before[-1] if before else result, result.speaker, "")


def _with_result(action: Action, result: Step) -> Action:
    label = _OBSERVATION.match(result.content[:40])
    output = result.content[label.end() :] if label else result.content
    return replace(action, result_step=result.index, output=output, error=tool_error(output))
