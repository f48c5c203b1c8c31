"""Guards: compiled targets of bullets, each with the mode that decides about a matching call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain

from chassis.targets.evaluation import MAX_STEPS, TargetEvaluation
from chassis.targets.operations import require_bool
from chassis.targets.session import SessionHistory, ToolCallRequest
from chassis.targets.simple_conditions import SimpleConditionIndex
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

    @classmethod
    def _missing_(cls, value: object) -> GuardMode:
        """Count the call for a mode that is not set, or of a later version of the contract."""
        return cls.SHADOW


class CallDecision(IntEnum):
    """The decision about a call: ALLOW, or the strictest mode of the guards that match. A higher one is stricter.

    The numbers are those of the contract's `GuardDecision`; from ADVISE on they are also those of `GuardMode`.
    """

    ALLOW = 1
    ADVISE = 2
    """Allow the call and give the agent the text."""
    ASK = 3
    """Let a person decide."""
    DENY = 4
    """Refuse the call and give the text as the reason."""

    @classmethod
    def _missing_(cls, value: object) -> CallDecision:
        """Allow a call for a decision of a later version of the contract."""
        return cls.ALLOW


MAX_EXHAUSTIONS = 10
"""Evaluations that take all their steps, after which a guard is suspended."""
_MIN_INDEXED = 16
"""Guards below which evaluating each one is faster than an index of their simple conditions."""
_BLOCK_SIZE = 256
"""Guards whose simple conditions have masks in common; the memory of the masks grows with its square."""


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


class _GuardBlock:
    """Some guards of one tool, or of every tool, with the index of their simple conditions."""

    __slots__ = ("_bits", "_conditions", "guards")

    def __init__(self, guards: Sequence[CallGuard]) -> None:
        self.guards = guards
        self._bits = tuple(1 << number for number in range(len(guards)))
        self._conditions = SimpleConditionIndex(guard.target.simple_conditions for guard in guards)

    def select(self, evaluation: TargetEvaluation) -> Iterable[CallGuard]:
        """Return the guards that no simple condition decides."""
        if len(self.guards) < _MIN_INDEXED:
            return self.guards
        false = self._conditions.find_false_targets(evaluation)
        if false == (1 << len(self.guards)) - 1:
            return ()
        return [guard for bit, guard in zip(self._bits, self.guards, strict=True) if not false & bit]


class GuardIndex:
    """The guards of a dataset, by the tools whose calls they can match; suspended ones are never selected."""

    __slots__ = ("_blocks", "_guards")

    def __init__(self, guards: Iterable[CallGuard] = ()) -> None:
        """Index guards."""
        self._guards = tuple(guards)
        self._blocks = _build_blocks(self._guards)

    def __len__(self) -> int:
        """Return the number of guards."""
        return len(self._guards)

    def select(self, tool: str) -> Iterator[CallGuard]:
        """Return the guards that can match a call of a tool."""
        return chain.from_iterable(block.guards for block in self._find_blocks(tool))

    def select_undecided(self, evaluation: TargetEvaluation) -> Iterator[CallGuard]:
        """Return the guards that can match a call, without those that a simple condition decides."""
        return chain.from_iterable(block.select(evaluation) for block in self._find_blocks(evaluation.call.tool))

    def count_failure(self, guard: CallGuard, *, is_exhausted: bool) -> None:
        """Count a failed evaluation; the guard is suspended after MAX_EXHAUSTIONS that took all their steps."""
        guard.failures.count += 1
        guard.failures.exhaustions += is_exhausted
        if guard.failures.is_suspended:
            # New blocks: a check in another thread may be at one of the old ones.
            self._blocks = _build_blocks(self._guards)

    def _find_blocks(self, tool: str) -> Iterator[_GuardBlock]:
        return chain(self._blocks.get(tool, ()), self._blocks.get(None, ()))


def _build_blocks(guards: Iterable[CallGuard]) -> dict[str | None, list[_GuardBlock]]:
    """Return the guards of each tool; those of every tool with None."""
    by_tool: dict[str | None, list[CallGuard]] = {}
    for guard in guards:
        if not guard.failures.is_suspended:
            for tool in (None,) if guard.target.tools is None else guard.target.tools:
                by_tool.setdefault(tool, []).append(guard)
    return {
        tool: [_GuardBlock(of_tool[start : start + _BLOCK_SIZE]) for start in range(0, len(of_tool), _BLOCK_SIZE)]
        for tool, of_tool in by_tool.items()
    }


def find_matches(guards: GuardIndex, call: ToolCallRequest, session: SessionHistory) -> GuardMatches:
    """Return the guards that match a call, strictest mode first, and those whose evaluation failed.

    A guard that cannot be evaluated does not match: the call is allowed, and the failure is counted.
    """
    matches: list[CallGuard] = []
    failures: list[tuple[CallGuard, str]] = []
    evaluation = TargetEvaluation(call, session)
    for guard in guards.select_undecided(evaluation):
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
