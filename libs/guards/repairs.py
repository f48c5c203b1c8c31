"""Derive targets from failures that an agent repaired inside one trajectory.

A call fails with an error, and later a call of the same tool succeeds. The change in between is the lesson:

- another tool succeeded first: that tool is a prerequisite
- the error names allowed values or a limit: the argument must keep to them
- the argument occurred in no text or result, and one that occurred succeeded: it was invented
- the same call failed again with the same error: to repeat it does not help
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from chassis.targets.target import Target
from libs.guards.grammar import MAX_VALUE_CHARS, quote
from libs.guards.guard_trajectory import GuardTrajectory, Replay, TrajectoryCall, matches

MAX_DISTANCE = 30
"""Calls between a failure and its repair."""
MAX_ALLOWED_VALUES = 20
_COMMANDS = frozenset({"cmd", "code", "command", "input", "query", "script", "source", "sql", "url"})
"""Arguments that hold a command. The tool alone does not identify the operation, so it has no prerequisite."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"
_ALLOWED = re.compile(
    r"(?:must be (?:one of|either)|(?:allowed|valid|available|supported|permitted|possible)(?: \w+)?(?: are| is)?:?"
    r"|expected one of|choose from|one of)[:\s]*[\[({]?\s*"
    r"((?:['\"`]?[\w.-]+['\"`]?(?:\s*,\s*(?:or |and )?|\s+or\s+|\s+and\s+|\s*\|\s*))+['\"`]?[\w.-]*\w['\"`]?)",
    re.IGNORECASE,
)
_AT_MOST = re.compile(
    rf"(?:at most|no more than|not exceed|maximum(?: \w+)?(?: is| of)?:?|limit(?: is| of)?:?|<=|less than or equal to)"
    rf" {_NUMBER}",
    re.IGNORECASE,
)
_AT_LEAST = re.compile(
    rf"(?:at least|no less than|minimum(?: \w+)?(?: is| of)?:?|>=|greater than or equal to) {_NUMBER}", re.IGNORECASE
)
_BETWEEN = re.compile(rf"between {_NUMBER} and {_NUMBER}", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*,\s*(?:or |and )?|\s+or\s+|\s+and\s+|\s*\|\s*")


@dataclass(frozen=True, slots=True)
class RepairedFailure:
    """A target that a repaired failure supports, with the steps of the failed call and of the repair."""

    target: str
    kind: str
    error: str
    failed_step: int
    repaired_step: int


def find_repairs(trajectory: GuardTrajectory) -> list[RepairedFailure]:
    """Return the repairs of a trajectory, in the order of the failures; each target occurs once."""
    history = _read_history(trajectory)
    repairs: dict[str, RepairedFailure] = {}
    succeeded: set[str] = set()
    for position, (call, unseen) in enumerate(history):
        if call.error:
            for repair in _find_call_repairs(
                call, unseen, history[position + 1 : position + 1 + MAX_DISTANCE], succeeded
            ):
                repairs.setdefault(repair.target, repair)
        else:
            succeeded.add(call.request.tool)
    return list(repairs.values())


def select_repairs(trajectories: Iterable[GuardTrajectory]) -> list[RepairedFailure]:
    """Return the repairs whose targets no successful call contradicts, those with the most matches first.

    A call contradicts a target that matches it, if it succeeds.
    """
    recorded = list(trajectories)
    found: dict[str, RepairedFailure] = {}
    for trajectory in recorded:
        for repair in find_repairs(trajectory):
            found.setdefault(repair.target, repair)
    targets = {source: Target(source) for source in found}
    support: Counter[str] = Counter()
    contradicted: set[str] = set()
    for trajectory in recorded:
        replay = Replay(trajectory)
        for call in replay:
            for source, target in targets.items():
                if source not in contradicted and matches(target, call, replay):
                    support[source] += 1
                    if not call.error:
                        contradicted.add(source)
    consistent = [repair for source, repair in found.items() if source not in contradicted and support[source]]
    return sorted(consistent, key=lambda repair: -support[repair.target])


_History = Sequence[tuple[TrajectoryCall, frozenset[str]]]


def _read_history(trajectory: GuardTrajectory) -> _History:
    """Return the calls, each with the names of its arguments that occur in no earlier text or result."""
    replay = Replay(trajectory)
    return [
        (
            call,
            frozenset(
                name
                for name, value in call.request.args.items()
                if isinstance(value, str) and not replay.session.has_seen(value)
            ),
        )
        for call in replay
    ]


def _find_call_repairs(
    call: TrajectoryCall, unseen: frozenset[str], later: _History, succeeded: Set[str]
) -> Iterator[RepairedFailure]:
    tool = call.request.tool
    again = next((other for other, _ in later if other.request.key == call.request.key), None)
    if again is not None and again.error == call.error:
        yield _build(call, again, "same call again after an error", "failures() > 0")
    success = next(((other, seen) for other, seen in later if other.request.tool == tool and not other.error), None)
    if success is None:
        return
    repaired, still_unseen = success
    changed = [
        name
        for name, value in call.request.args.items()
        if _NAME.fullmatch(name) and repaired.request.args.get(name) != value
    ]
    named = [condition for name in changed for condition in _read_rules(name, call)]
    if named:
        yield from (_build(call, repaired, kind, condition) for kind, condition in named)
        return
    for name in changed:
        if name in unseen and name not in still_unseen and name in repaired.request.args:
            yield _build(call, repaired, "argument in no text or result", f"!seen(call.args.{name})")
    if not changed and _COMMANDS.isdisjoint(call.request.args):
        yield from _find_prerequisites(call, repaired, later, succeeded)


def _find_prerequisites(
    call: TrajectoryCall, repaired: TrajectoryCall, later: _History, succeeded: Set[str]
) -> Iterator[RepairedFailure]:
    """Propose that a call needs the tool whose first success came between its failure and its own success."""
    between = [other for other, _ in later if other.step <= repaired.step and other is not repaired]
    new = [other for other in between if not other.error and other.request.tool not in {*succeeded, call.request.tool}]
    if new:
        # The last one before the success is the most probable cause.
        yield _build(call, repaired, "B without A", f"!succeeded({quote(new[-1].request.tool)})")


def _read_rules(name: str, call: TrajectoryCall) -> Iterator[tuple[str, str]]:
    """Yield the rules about an argument that the error of a call names: allowed values, or limits."""
    value, error, path = call.request.args[name], call.error, f"call.args.{name}"
    if isinstance(value, str) and (name in error or value in error):
        values = _read_allowed_values(error)
        if values and value not in values:
            yield "value that is not allowed", f"!({path} in [{', '.join(quote(item) for item in values)}])"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        for limit, is_upper in _read_limits(error):
            if (value > limit) if is_upper else (value < limit):
                yield "value beyond a limit", f"{path} {'>' if is_upper else '<'} {quote(limit)}"


def _read_allowed_values(error: str) -> list[str]:
    found = _ALLOWED.search(error)
    if found is None:
        return []
    values = [item.strip("'\"`.") for item in _SEPARATOR.split(found.group(1))]
    values = [item for item in values if item and len(item) <= MAX_VALUE_CHARS]
    return values if 2 <= len(values) <= MAX_ALLOWED_VALUES else []


def _read_limits(error: str) -> list[tuple[int | float, bool]]:
    if found := _BETWEEN.search(error):
        return [(_parse_number(found.group(1)), False), (_parse_number(found.group(2)), True)]
    limits: list[tuple[int | float, bool]] = []
    limits += [(_parse_number(found.group(1)), True)] if (found := _AT_MOST.search(error)) else []
    limits += [(_parse_number(found.group(1)), False)] if (found := _AT_LEAST.search(error)) else []
    return limits


def _parse_number(text: str) -> int | float:
    number = float(text.replace(",", ""))
    return int(number) if number.is_integer() else number


def _build(call: TrajectoryCall, repaired: TrajectoryCall, kind: str, condition: str) -> RepairedFailure:
    target = f"call.tool == {quote(call.request.tool)} && {condition}"
    return RepairedFailure(target, kind, call.error, call.step, repaired.step)
