"""Guards: compiled targets of bullets, each with the mode that decides about a matching call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from chassis.targets.errors import EvaluationFailed
from chassis.targets.evaluation import TargetEvaluation
from chassis.targets.session import SessionHistory, ToolCallRequest
from chassis.targets.target import Target


class GuardMode(IntEnum):
    """The reaction to a call that a guard matches; a higher mode is stricter."""

    SHADOW = 1
    """Count the call."""
    ADVISE = 2
    """Allow the call and give the agent the text."""
    ASK = 3
    """Let a person decide."""
    DENY = 4
    """Refuse the call and give the text as the reason."""


@dataclass(frozen=True, slots=True)
class CallGuard:
    """The target of a bullet with its mode, and the text that an agent or a person reads."""

    bullet_id: str
    target: Target
    mode: GuardMode
    text: str


@dataclass(frozen=True, slots=True)
class GuardMatches:
    """The guards that match a call, and the guards that could not be evaluated for it, with the reasons."""

    matches: tuple[CallGuard, ...] = ()
    failures: tuple[tuple[CallGuard, str], ...] = ()


class GuardIndex:
    """The guards of a dataset, by the tools whose calls they can match."""

    __slots__ = ("_by_tool", "_of_every_tool", "_size")

    def __init__(self, guards: Iterable[CallGuard] = ()) -> None:
        """Index guards."""
        self._by_tool: dict[str, list[CallGuard]] = {}
        self._of_every_tool: list[CallGuard] = []
        self._size = 0
        for guard in guards:
            self._size += 1
            if guard.target.tools is None:
                self._of_every_tool.append(guard)
            else:
                for tool in guard.target.tools:
                    self._by_tool.setdefault(tool, []).append(guard)

    def __len__(self) -> int:
        """Return the number of guards."""
        return self._size

    def select(self, tool: str) -> Iterator[CallGuard]:
        """Yield the guards that can match a call of a tool."""
        yield from self._by_tool.get(tool, ())
        yield from self._of_every_tool


def find_matches(guards: GuardIndex, call: ToolCallRequest, session: SessionHistory) -> GuardMatches:
    """Return the guards that match a call, strictest mode first, and those whose evaluation failed.

    A guard that cannot be evaluated does not match: the call is allowed, and the caller counts the failure.
    """
    matches: list[CallGuard] = []
    failures: list[tuple[CallGuard, str]] = []
    evaluation = TargetEvaluation(call, session)
    for guard in guards.select(call.tool):
        try:
            if guard.target.evaluate(evaluation):
                matches.append(guard)
        except EvaluationFailed as error:
            failures.append((guard, str(error)))
    matches.sort(key=lambda guard: -guard.mode)
    return GuardMatches(tuple(matches), tuple(failures))
