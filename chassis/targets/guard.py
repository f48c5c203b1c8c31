"""Guards: compiled targets of bullets, each with the mode that decides about a matching call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain

from chassis.targets.evaluation import MAX_STEPS, TargetEvaluation
from chassis.targets.operations import require_bool
from chassis.targets.session import SessionHistory, ToolCallRequest
from chassis.targets.target import FAILURES, Target, describe_failure


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


MAX_EXHAUSTIONS = 10
"""Evaluations that take all their steps, after which a guard is suspended."""


@dataclass(slots=True)
class GuardFailures:
    """The failed evaluations of a guard in this process, and those of them that took all their steps."""

    count: int = 0
    exhaustions: int = 0

    @property
    def is_suspended(self) -> bool:
        """Return whether the guard is no longer evaluated, because its target costs too much."""
        return self.exhaustions >= MAX_EXHAUSTIONS


@dataclass(frozen=True, slots=True)
class CallGuard:
    """The target of a bullet with its mode, and the text that an agent or a person reads."""

    bullet_id: str
    target: Target
    mode: GuardMode
    text: str
    failures: GuardFailures = field(default_factory=GuardFailures, compare=False)


@dataclass(frozen=True, slots=True)
class GuardMatches:
    """The guards that match a call, and the guards that could not be evaluated for it, with the reasons."""

    matches: tuple[CallGuard, ...] = ()
    failures: tuple[tuple[CallGuard, str], ...] = ()


class GuardIndex:
    """The guards of a dataset, by the tools whose calls they can match; suspended ones are never selected."""

    __slots__ = ("_by_tool", "_of_every_tool", "_size")

    def __init__(self, guards: Iterable[CallGuard] = ()) -> None:
        """Index guards."""
        self._by_tool: dict[str, list[CallGuard]] = {}
        self._of_every_tool: list[CallGuard] = []
        self._size = 0
        for guard in guards:
            self._size += 1
            if guard.failures.is_suspended:
                continue
            if guard.target.tools is None:
                self._of_every_tool.append(guard)
            else:
                for tool in guard.target.tools:
                    self._by_tool.setdefault(tool, []).append(guard)

    def __len__(self) -> int:
        """Return the number of guards."""
        return self._size

    def select(self, tool: str) -> Iterator[CallGuard]:
        """Return the guards that can match a call of a tool."""
        return chain(self._by_tool.get(tool, ()), self._of_every_tool)

    def count_failure(self, guard: CallGuard, *, is_exhausted: bool) -> None:
        """Count a failed evaluation; the guard is suspended after MAX_EXHAUSTIONS that took all their steps."""
        guard.failures.count += 1
        guard.failures.exhaustions += is_exhausted
        if guard.failures.is_suspended:
            # New lists: a check in another thread may be at one of them.
            self._of_every_tool = [other for other in self._of_every_tool if other is not guard]
            for tool in guard.target.tools or ():
                self._by_tool[tool] = [other for other in self._by_tool[tool] if other is not guard]


def find_matches(guards: GuardIndex, call: ToolCallRequest, session: SessionHistory) -> GuardMatches:
    """Return the guards that match a call, strictest mode first, and those whose evaluation failed.

    A guard that cannot be evaluated does not match: the call is allowed, and the failure is counted.
    """
    matches: list[CallGuard] = []
    failures: list[tuple[CallGuard, str]] = []
    evaluation = TargetEvaluation(call, session)
    for guard in guards.select(call.tool):
        evaluation.steps = MAX_STEPS
        try:
            value = guard.target.evaluate(evaluation)
            if value is not False and require_bool(value):
                matches.append(guard)
        except FAILURES as error:
            failures.append((guard, describe_failure(error)))
            guards.count_failure(guard, is_exhausted=evaluation.steps < 0)
    matches.sort(key=lambda guard: -guard.mode)
    return GuardMatches(tuple(matches), tuple(failures))
