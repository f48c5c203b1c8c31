"""Evaluate the predicates of the grammar on trajectories: in which each fires, and at which call first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chassis.targets.syntax import MAX_SOURCE_CHARS
from chassis.targets.target import Target
from libs.guards.grammar import (
    UNCONFIRMED,
    Condition,
    build_target,
    may_write,
    propose,
    propose_flags,
    propose_generic,
)
from libs.guards.guard_trajectory import GuardTrajectory, Replay, TrajectoryCall, compile_target, matches

NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition with its modifiers, as a target."""

    source: str
    kind: str
    tool: str
    parts: int


@dataclass(frozen=True, slots=True)
class FiringTable:
    """`first[trajectory, predicate]`: the step of the first call for which the predicate is true, or `NEVER`."""

    predicates: tuple[Predicate, ...]
    first: NDArray[np.int32]

    @property
    def fires(self) -> NDArray[np.bool_]:
        """Return whether each predicate fires in each trajectory."""
        return np.not_equal(self.first, NEVER)


def find_firings(target: Target, trajectory: GuardTrajectory) -> list[tuple[int, TrajectoryCall]]:
    """Return each call of a trajectory that a target matches, with its number.

    A target that cannot be evaluated for a call does not match it.
    """
    replay = Replay(trajectory)
    return [(number, call) for number, call in enumerate(replay) if matches(target, call, replay)]


def build_firing_table(trajectories: Sequence[GuardTrajectory]) -> FiringTable:
    """Return a table of the calls at which each predicate of the grammar fires first.

    Predicates that no guard can have, because they are too long or have too large a number, are left out.
    """
    tools: dict[str, set[str]] = defaultdict(set)
    for trajectory in trajectories:
        tools[trajectory.domain].update(call.request.tool for call in trajectory.calls)
    writers = [tool for domain in tools.values() for tool in domain if may_write(tool)]
    conditions: dict[str, dict[Condition, Target | None]] = defaultdict(dict)
    modifiers: dict[str, dict[str, Target | None]] = defaultdict(dict)
    for trajectory in trajectories:
        replay = Replay(trajectory)
        for call in replay:
            tool = call.request.tool
            for flag in propose_flags(call.request):
                if flag not in modifiers[tool]:
                    modifiers[tool][flag] = compile_target(flag)
            for condition in propose(call.request, replay.session, tools[trajectory.domain]):
                if condition not in conditions[tool]:
                    conditions[tool][condition] = compile_target(condition.expression)
    generic = {condition: Target(condition.expression) for condition in propose_generic()}
    rows = [_find_first_steps(Replay(trajectory), conditions, generic, modifiers) for trajectory in trajectories]
    found = sorted({key for row in rows for key in row}, key=lambda key: (key[0].tool, key[0].expression, key[1]))
    sources = {key: build_target(key[0].tool, writers, (key[0].expression, *key[1])) for key in found}
    keys = [key for key in found if len(sources[key]) <= MAX_SOURCE_CHARS]
    index = {key: position for position, key in enumerate(keys)}
    first = np.full((len(trajectories), len(keys)), NEVER, dtype=np.int32)
    for number, row in enumerate(rows):
        for key in row.keys() & index.keys():
            first[number, index[key]] = row[key]
    predicates = tuple(
        Predicate(
            sources[condition, modifier],
            " and ".join((condition.kind, *(_describe_modifier(part) for part in modifier))),
            condition.tool,
            1 + len(modifier),
        )
        for condition, modifier in keys
    )
    return FiringTable(predicates, first)


_Key = tuple[Condition, tuple[str, ...]]


def _find_first_steps(
    replay: Replay,
    conditions: dict[str, dict[Condition, Target | None]],
    generic: dict[Condition, Target],
    modifiers: dict[str, dict[str, Target | None]],
) -> dict[_Key, int]:
    """Return the step of the first call of a trajectory that each condition with each modifier matches."""
    first: dict[_Key, int] = {}
    for call in replay:
        tool = call.request.tool
        flags = [flag for flag, target in sorted(modifiers[tool].items()) if target and matches(target, call, replay)]
        unconfirmed = [] if replay.session.is_confirmed else [UNCONFIRMED]
        combined = [(), *((flag,) for flag in flags)]
        combined += [(*modifier, *unconfirmed) for modifier in combined] if unconfirmed else []
        for condition, target in (*conditions[tool].items(), *generic.items()):
            if condition.tool == "*" and not may_write(tool):
                continue
            if target is not None and matches(target, call, replay):
                for modifier in combined:
                    if condition.expression not in modifier:
                        first.setdefault((condition, modifier), call.step)
    return first


def _describe_modifier(modifier: str) -> str:
    return "without the user's agreement" if modifier == UNCONFIRMED else "flag set"
