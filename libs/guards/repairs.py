"""Derive targets from failures that an agent repaired inside one trajectory.

A call fails with an error, and later a call of the same operation succeeds. The change in between is the lesson:

- another operation succeeded first: it is a prerequisite, of the same value if both have one
- the error names allowed values or a limit: the argument must keep to them
- the argument occurred in no text or result, and one that occurred succeeded: it was invented
- the error names a part of the argument that the repair removed: the argument as it was is wrong
- the same call failed again with the same error: to repeat it, at once or at all, does not help

A repair has several targets, from the most general to the narrowest: calls of the tool, of its operation, or only the
call that failed. The first that no successful call contradicts is used (ADR 198).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from chassis.targets.session import SessionHistory, ToolCallRequest
from chassis.targets.target import Target
from libs.guards.grammar import MAX_VALUE_CHARS, quote
from libs.guards.guard_trajectory import GuardTrajectory, Replay, TrajectoryCall, compile_target, matches
from libs.trajectories.operations import name_operation

MAX_DISTANCE = 30
"""Calls between a failure and its repair."""
MAX_ALLOWED_VALUES = 20
MAX_COMMAND_CHARS = 500
"""Characters of a value that a target repeats."""
MAX_CALL_ARGUMENTS = 6
"""Arguments of a call that a target repeats."""
MIN_SHARED_CHARS = 2
MAX_EXCEPTIONS = 3
"""Values that a target about invented values excepts."""
_COMMANDS = frozenset({"cmd", "code", "command", "input", "query", "script", "source", "sql", "url"})
"""Arguments that hold a command. The tool alone does not identify the operation."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"\w+")
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
    """A target that a repaired failure supports, with the steps of the failed call and of the repair.

    `narrower` are other targets for the same failure, which match ever fewer calls. `argument` is the invented one.
    """

    target: str
    kind: str
    error: str
    failed_step: int
    repaired_step: int
    narrower: tuple[str, ...] = ()
    argument: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the target and the narrower ones."""
        return self.target, *self.narrower

    def rests_on(self, steps: Collection[int]) -> bool:
        """Return whether the failed call or the repair is at one of the steps."""
        return self.failed_step in steps or self.repaired_step in steps


def find_repairs(trajectory: GuardTrajectory) -> list[RepairedFailure]:
    """Return the repairs of a trajectory, in the order of the failures; each target occurs once."""
    if not any(call.error for call in trajectory.calls):
        return []
    history = _read_history(trajectory)
    repairs: dict[str, RepairedFailure] = {}
    succeeded = _SuccessfulCalls()
    for position, recorded in enumerate(history):
        if recorded.call.error:
            later = history[position + 1 : position + 1 + MAX_DISTANCE]
            for repair in _find_call_repairs(recorded, later, succeeded):
                repairs.setdefault(repair.target, repair)
        else:
            succeeded.add(recorded.call.request)
    return list(repairs.values())


def select_repairs(
    trajectories: Iterable[GuardTrajectory], steps: Collection[int] | None = None
) -> list[RepairedFailure]:
    """Return the repairs, each with its first target that no successful call contradicts, the most matches first.

    A call contradicts a target that matches it, if it succeeds. A target about invented values may except a few values
    that were valid all the same. A repair without a target is left out, as is a target that no guard can have, because
    it is too long or has a number that is too large. With `steps`, only the repairs that rest on one
    of them are returned, and the targets of others are tested only if a returned one depends on them: the time is that
    of the returned ones.
    """
    recorded = list(trajectories)
    found = [repair for trajectory in recorded for repair in find_repairs(trajectory)]
    tested = {
        source: _TestedTarget(compiled, repair.argument) if (compiled := compile_target(source)) else None
        for repair, sources in _find_needed_sources(found, steps)
        for source in sources
    }
    if not tested:
        return []
    _test_targets([candidate for candidate in tested.values() if candidate is not None], recorded)
    selected: dict[str, RepairedFailure] = {}
    support: dict[str, int] = {}
    for repair in found:
        for position, source in enumerate(repair.sources):
            if source not in tested:
                break
            candidate = tested[source]
            if candidate is not None and (target := candidate.narrow()):
                selected.setdefault(target, replace(repair, target=target, narrower=repair.sources[position + 1 :]))
                support[target] = candidate.support
                break
    returned = [repair for repair in selected.values() if steps is None or repair.rests_on(steps)]
    return sorted(returned, key=lambda repair: -support[repair.target])


def _find_needed_sources(
    found: Sequence[RepairedFailure], steps: Collection[int] | None
) -> Iterator[tuple[RepairedFailure, Sequence[str]]]:
    """Yield the repairs with the targets that are needed to select those that rest on the steps.

    The first repair with a target keeps it. So a target of another repair is needed if a repair on the steps has it,
    too, and so are the more general targets of that other one.
    """
    needed = {source for repair in found if steps is None or repair.rests_on(steps) for source in repair.sources}
    for repair in found:
        shared = [position for position, source in enumerate(repair.sources) if source in needed]
        if shared:
            yield repair, repair.sources[: shared[-1] + 1]


def _test_targets(tested: Iterable[_TestedTarget], trajectories: Iterable[GuardTrajectory]) -> None:
    """Add the calls of the trajectories to the targets that they match; those that are contradicted match no more."""
    by_tool: dict[str, list[_TestedTarget]] = {}
    for candidate in tested:
        for tool in candidate.target.tools or ():
            by_tool.setdefault(tool, []).append(candidate)
    for trajectory in trajectories:
        replay = Replay(trajectory)
        for call in replay:
            matching = [
                candidate for candidate in by_tool.get(call.request.tool, ()) if matches(candidate.target, call, replay)
            ]
            for candidate in matching:
                candidate.add(call)
            if any(candidate.is_contradicted for candidate in matching):
                remaining = [candidate for candidate in by_tool[call.request.tool] if not candidate.is_contradicted]
                by_tool[call.request.tool] = remaining


@dataclass(slots=True)
class _TestedTarget:
    """A target with the calls that it matches; `argument` is the one whose values it may except."""

    target: Target
    argument: str
    support: int = 0
    is_contradicted: bool = False
    failed_values: set[str] = field(default_factory=set)
    valid_values: set[str] = field(default_factory=set)

    def add(self, call: TrajectoryCall) -> None:
        value = call.request.args.get(self.argument)
        if isinstance(value, str):
            (self.failed_values if call.error else self.valid_values).add(value)
        if call.error:
            self.support += 1
        elif not isinstance(value, str) or len(self.valid_values) > MAX_EXCEPTIONS or len(value) > MAX_VALUE_CHARS:
            self.is_contradicted = True

    def narrow(self) -> str:
        """Return the target with its exceptions, which are fewer than the values that failed; empty without one."""
        if self.is_contradicted or not self.support:
            return ""
        if not self.valid_values:
            return self.target.source
        if len(self.valid_values) >= len(self.failed_values - self.valid_values):
            return ""
        values = ", ".join(quote(value) for value in sorted(self.valid_values))
        return f"{self.target.source} && !(call.args.{self.argument} in [{values}])"


@dataclass(frozen=True, slots=True)
class _RecordedCall:
    """A call with its operation; `unseen` are the names of its arguments that occur in no earlier text or result."""

    call: TrajectoryCall
    operation: str
    unseen: frozenset[str]


class _SuccessfulCalls:
    """The calls that have succeeded, as prerequisites are searched in them: each question takes constant time.

    Only the search for a command that never succeeded reads all commands of a tool.
    """

    def __init__(self) -> None:
        self._tools: set[str] = set()
        self._values: set[tuple[str, str, str]] = set()
        self._commands: dict[tuple[str, str], list[str]] = {}
        self._searches: dict[tuple[str, str, str], tuple[bool, int]] = {}

    def add(self, call: ToolCallRequest) -> None:
        """Add a call."""
        self._tools.add(call.tool)
        for name, value in call.args.items():
            if isinstance(value, str):
                self._values.add((call.tool, name, value))
            if name in _COMMANDS:
                self._commands.setdefault((call.tool, name), []).append(str(value))

    def has_tool(self, tool: str) -> bool:
        """Return whether a call of a tool succeeded."""
        return tool in self._tools

    def has_value(self, tool: str, name: str, value: str) -> bool:
        """Return whether a call of a tool with this argument succeeded."""
        return (tool, name, value) in self._values

    def has_command(self, tool: str, name: str, words: str) -> bool:
        """Return whether a call of a tool whose command contains these words succeeded."""
        commands = self._commands.get((tool, name), [])
        is_found, searched = self._searches.get((tool, name, words), (False, 0))
        if not is_found:
            is_found = any(words in command for command in commands[searched:])
            self._searches[tool, name, words] = is_found, len(commands)
        return is_found


def _read_history(trajectory: GuardTrajectory) -> Sequence[_RecordedCall]:
    """Return the calls in order."""
    session = SessionHistory()
    history: list[_RecordedCall] = []
    for event in trajectory.events:
        if isinstance(event, TrajectoryCall):
            values = event.request.args.items()
            unseen = (name for name, value in values if isinstance(value, str) and not session.has_seen(value))
            history.append(_RecordedCall(event, _name_operation(event.request), frozenset(unseen)))
            session.add_result(event.result)
        elif event.role != "assistant":
            session.add_message(event.text, is_user=event.role == "user")
    return history


def _find_call_repairs(
    failed: _RecordedCall, later: Sequence[_RecordedCall], succeeded: _SuccessfulCalls
) -> Iterator[RepairedFailure]:
    call = failed.call
    again = next((other.call for other in later if other.call.request.key == call.request.key), None)
    if again is not None and again.error == call.error:
        # After other calls, the same call is often the end of a repair.
        is_at_once = again is later[0].call
        yield _build(call, again, "same call again after an error", "retries() > 0" if is_at_once else "failures() > 0")
    success = next((other for other in later if not other.call.error and other.operation == failed.operation), None)
    if success is None:
        return
    repaired = success.call
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
        if name in failed.unseen and name not in success.unseen and name in repaired.request.args:
            repair = _build(call, repaired, "argument in no text or result", f"!seen(call.args.{name})")
            yield replace(repair, argument=name)
        elif _is_named_and_removed(call.error, call.request.args[name], repaired.request.args.get(name)):
            yield _build(call, repaired, "value that failed", f"call.args.{name} == {quote(call.request.args[name])}")
    if not changed:
        between = [other for other in later if other.call.step <= repaired.step and other.call is not repaired]
        yield from _find_prerequisites(failed, repaired, between, succeeded)


def _find_prerequisites(
    failed: _RecordedCall,
    repaired: TrajectoryCall,
    between: Sequence[_RecordedCall],
    succeeded: _SuccessfulCalls,
) -> Iterator[RepairedFailure]:
    """Propose that a call needs the operation that succeeded for the first time between its failure and its success."""
    forms = list(_describe_calls(failed))
    # The last one before the success is the most probable cause.
    for other in reversed(between):
        if other.call.error or other.call.request.key == failed.call.request.key:
            continue
        missing = list(_describe_prerequisites(failed.call.request, other, succeeded))
        if missing and forms:
            conditions = [" && ".join((*form, condition)) for form in forms for condition in missing]
            yield _build(failed.call, repaired, "B without A", *conditions)
            return


def _describe_calls(recorded: _RecordedCall) -> Iterator[tuple[str, ...]]:
    """Yield conditions on the arguments of calls like this one: any, the same command, the same arguments."""
    call = recorded.call.request
    if _COMMANDS.isdisjoint(call.args):
        yield ()
    if (command := _find_command(recorded)) is not None:
        yield (f"call.args.{command[0]}.contains({quote(command[1])})",)
    items = call.args.items()
    if 0 < len(items) <= MAX_CALL_ARGUMENTS and all(_is_repeatable(name, value) for name, value in items):
        yield tuple(f"call.args.{name} == {quote(value)}" for name, value in items)


def _describe_prerequisites(
    call: ToolCallRequest, recorded: _RecordedCall, succeeded: _SuccessfulCalls
) -> Iterator[str]:
    """Yield conditions that hold while nothing like the other call has succeeded.

    Such are a call of its tool with a value of this call, a call of its tool, and a call of its command.
    """
    other = recorded.call.request
    for name, value in other.args.items():
        shared = next(
            (own for own, its_value in call.args.items() if its_value == value and _NAME.fullmatch(own)), None
        )
        if shared is None or not isinstance(value, str) or len(value) < MIN_SHARED_CHARS or not _NAME.fullmatch(name):
            continue
        if not succeeded.has_value(other.tool, name, value):
            yield f"!succeeded_args({quote(other.tool)}).exists(a, a.{name} == call.args.{shared})"
    if not succeeded.has_tool(other.tool) and other.tool != call.tool:
        yield f"!succeeded({quote(other.tool)})"
    if (command := _find_command(recorded)) is not None:
        name, words = command
        if not succeeded.has_command(other.tool, name, words):
            yield f"!succeeded_args({quote(other.tool)}).exists(a, a.{name}.contains({quote(words)}))"


def _find_command(recorded: _RecordedCall) -> tuple[str, str] | None:
    """Return the argument that holds the command of a call, and the words that name its operation."""
    call, operation = recorded.call.request, recorded.operation
    if operation == call.tool:
        return None
    for name in sorted(_COMMANDS & call.args.keys()):
        if isinstance(call.args[name], str) and operation in call.args[name]:
            return name, operation
    return None


def _name_operation(call: ToolCallRequest) -> str:
    return name_operation(call.tool, json.dumps(call.args, ensure_ascii=False, default=str))


def _is_repeatable(name: str, value: object) -> bool:
    is_short = not isinstance(value, str) or len(value) <= MAX_COMMAND_CHARS
    return bool(_NAME.fullmatch(name)) and isinstance(value, str | int | float | bool) and is_short


def _is_named_and_removed(error: str, value: object, repaired: object) -> bool:
    """Return whether the error names a word of a value that the repaired value does not have."""
    if not (isinstance(value, str) and isinstance(repaired, str) and len(value) <= MAX_COMMAND_CHARS):
        return False
    removed = {*_WORD.findall(value)} - {*_WORD.findall(repaired)}
    return not removed.isdisjoint(_WORD.findall(error))


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


def _build(call: TrajectoryCall, repaired: TrajectoryCall, kind: str, *conditions: str) -> RepairedFailure:
    target, *narrower = (f"call.tool == {quote(call.request.tool)} && {condition}" for condition in conditions)
    return RepairedFailure(target, kind, call.error, call.step, repaired.step, tuple(narrower))
