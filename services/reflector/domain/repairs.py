"""Finds the repair of a failing action: the later successful call for the same purpose, and the differences."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from chassis.json_texts import format_as_text
from libs.trajectories.actions import ToolUse
from libs.trajectories.excerpts import EXCERPT_CHARS, shorten_text
from libs.trajectories.operations import COMMAND_FIELDS

MIN_SIMILARITY = 0.25
"""The share of common words from which a later call counts as a repetition."""
_CANDIDATES = 8
"""The number of later successes of the same operation that are compared."""
_OTHER_PROGRAMS = 2
"""The number of later commands of other programs that are compared."""
_READ_CHARS = 4_000
_CONTEXT_CHARS = 20
_NAME_CHARS = 60
_MAX_JSON_CHARS = 100_000
_BETWEEN_READ = 50
_MAX_BETWEEN = 3
_MAX_OPTIONS = 3
_COMMANDS = ("", *COMMAND_FIELDS)
_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,30}")
_COMMAND_OPTION = re.compile(rf"(?<=\s){_OPTION.pattern}(?=\s)")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """An argument that differs between the failing and the successful call; texts are shortened."""

    argument: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class FailureRecovery:
    """The successful call after `failed`, the differences, and the other operations that succeeded in between."""

    failed: ToolUse
    fixed: ToolUse
    changes: tuple[ArgumentChange, ...]
    operations_between: tuple[str, ...]

    @property
    def remedies(self) -> tuple[str, ...]:
        """Return the possible repairs: new values, added options, the calls between, another operation."""
        values = tuple(change.after for change in self.changes if change.after and change.argument not in _COMMANDS)
        other = () if self.fixed.operation == self.failed.operation else (self.fixed.operation,)
        return (*values, *self.options_added, *self.operations_between, *other)

    @property
    def options_added(self) -> tuple[str, ...]:
        """Return the command-line options that only the successful call has."""
        change = next((change for change in self.changes if change.argument in _COMMANDS), None)
        if change is None:
            return ()
        before = set(change.before.split())
        added = [word for word in change.after.split() if _OPTION.fullmatch(word) and word not in before]
        return tuple(dict.fromkeys(added))[:_MAX_OPTIONS]


def find_repairs(actions: Sequence[ToolUse]) -> dict[int, FailureRecovery]:
    """Return the repair of each failing action that has one, by the action's position in `actions`.

    A repair is a later call of the operation, or else of another program in the place of one that a shell did not run.
    Every failing action is compared with a fixed number of later successes, so the cost is linear in the actions.
    """
    later: dict[str, list[int]] = {}
    commands: list[int] = []
    found: dict[int, FailureRecovery] = {}
    for position in range(len(actions) - 1, -1, -1):
        action = actions[position]
        if action.is_success:
            later.setdefault(action.operation, []).append(position)
            if action.operation != action.tool:
                commands.append(position)
        elif action.error is not None:
            words = _split_words(action.arguments)
            for candidate in reversed(later.get(action.operation, [])[-_CANDIDATES:]):
                if _compute_similarity(words, _split_words(actions[candidate].arguments)) >= MIN_SIMILARITY:
                    found[position] = _repair(actions, position, candidate)
                    break
            else:
                for candidate in reversed(commands[-_OTHER_PROGRAMS:]):
                    if _replaces_program(action, actions[candidate]):
                        found[position] = _repair(actions, position, candidate)
                        break
    return found


def _replaces_program(failed: ToolUse, fixed: ToolUse) -> bool:
    """Return whether a command asks another program for the same (`pnpm install` after `npm install`).

    Options of the first program, which the other one may not have, may be missing.
    """
    program, other = failed.operation.partition(" ")[0], fixed.operation.partition(" ")[0]
    texts = (failed.arguments, _COMMAND_OPTION.sub(" ", failed.arguments))
    words = [_split_words(text) - _split_words(program) - {*COMMAND_FIELDS} for text in texts]
    other_words = _split_words(fixed.arguments) - _split_words(other) - {*COMMAND_FIELDS}
    return program != other and failed.operation != failed.tool and bool(other_words) and other_words in words


def _repair(actions: Sequence[ToolUse], failed: int, fixed: int) -> FailureRecovery:
    between: list[str] = []
    for action in actions[failed + 1 : fixed][-_BETWEEN_READ:]:
        counts = action.is_success and action.output.strip() and action.operation != actions[failed].operation
        if counts and action.operation not in between:
            between.append(action.operation)
    changes = compare_arguments(actions[failed].arguments, actions[fixed].arguments)
    return FailureRecovery(actions[failed], actions[fixed], changes, tuple(between[-_MAX_BETWEEN:]))


def compare_arguments(before: str, after: str) -> tuple[ArgumentChange, ...]:
    """Return the differences of two argument texts: by argument if both are JSON objects, else of the whole texts."""
    if before == after:
        return ()
    try:
        return _find_changed_arguments(_parse_object(before), _parse_object(after))
    except (ValueError, RecursionError):
        return (_to_change("", before, after),)


def _find_changed_arguments(old: dict[str, object], new: dict[str, object]) -> tuple[ArgumentChange, ...]:
    names = [*old, *(name for name in new if name not in old)]
    return tuple(
        _to_change(
            shorten_text(name, _NAME_CHARS), format_as_text(old.get(name, "")), format_as_text(new.get(name, ""))
        )
        for name in names
        if old.get(name) != new.get(name)
    )


def _to_change(argument: str, before: str, after: str) -> ArgumentChange:
    """Return the change as excerpts from shortly before the first difference: long values often begin alike."""
    start = 0
    if max(len(before), len(after)) > EXCERPT_CHARS:
        pairs = zip(before[:_READ_CHARS], after[:_READ_CHARS], strict=False)
        difference = next((index for index, (old, new) in enumerate(pairs) if old != new), 0)
        start = max(0, difference - _CONTEXT_CHARS)
    lead = "…" if start else ""
    return ArgumentChange(argument, lead + shorten_text(before[start:]), lead + shorten_text(after[start:]))


def _parse_object(text: str) -> dict[str, object]:
    """Return the JSON object of `text`. Raise ValueError for anything else, RecursionError for deep nesting."""
    value = json.loads(text) if len(text) <= _MAX_JSON_CHARS else None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _split_words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text[:_READ_CHARS].lower()))


def _compute_similarity(left: frozenset[str], right: frozenset[str]) -> float:
    union = left | right
    return len(left & right) / len(union) if union else 1.0
