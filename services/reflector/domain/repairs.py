"""Finds what repaired a failing action: the later call for the same operation that worked, and what differed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from services.reflector.domain.actions import Action
from services.reflector.domain.excerpts import EXCERPT_CHARS, excerpt
from services.reflector.domain.operations import COMMAND_FIELDS

MIN_SIMILARITY = 0.3
"""Share of common words from which a later call counts as another try of the same thing."""
_CANDIDATES = 8
"""Later successes of the same operation that are looked at."""
_READ_CHARS = 4_000
_CONTEXT_CHARS = 20
_NAME_CHARS = 60
_MAX_JSON_CHARS = 100_000
_BETWEEN_READ = 50
_MAX_BETWEEN = 3
_MAX_OPTIONS = 3
_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,30}")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Change:
    """An argument that differed between the failing and the working call; text is shortened."""

    argument: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Repair:
    """The call that worked after `failed` did not, what differed, and the other operations that worked in between."""

    failed: Action
    fixed: Action
    changes: tuple[Change, ...]
    operations_between: tuple[str, ...]

    @property
    def options_added(self) -> tuple[str, ...]:
        """The options of a command line that only the working call has."""
        change = next((change for change in self.changes if change.argument in ("", *COMMAND_FIELDS)), None)
        if change is None:
            return ()
        before = set(change.before.split())
        added = [word for word in change.after.split() if _OPTION.fullmatch(word) and word not in before]
        return tuple(dict.fromkeys(added))[:_MAX_OPTIONS]


def repairs_of(actions: Sequence[Action]) -> dict[int, Repair]:
    """The repair of each failing action that has one, by the action's position in `actions`.

    Every failing action looks at a fixed number of later successes, so the cost is linear in the actions.
    """
    later: dict[str, list[int]] = {}
    found: dict[int, Repair] = {}
    for position in range(len(actions) - 1, -1, -1):
        action = actions[position]
        if action.succeeded:
            later.setdefault(action.operation, []).append(position)
        elif action.error is not None:
            words = _words(action.arguments)
            for candidate in reversed(later.get(action.operation, [])[-_CANDIDATES:]):
                if _similarity(words, _words(actions[candidate].arguments)) >= MIN_SIMILARITY:
                    found[position] = _repair(actions, position, candidate)
                    break
    return found


def _repair(actions: Sequence[Action], failed: int, fixed: int) -> Repair:
    between: list[str] = []
    for action in actions[failed + 1 : fixed][-_BETWEEN_READ:]:
        told = action.succeeded and action.output.strip() and action.operation != actions[failed].operation
        if told and action.operation not in between:
            between.append(action.operation)
    changes = changes_between(actions[failed].arguments, actions[fixed].arguments)
    return Repair(actions[failed], actions[fixed], changes, tuple(between[-_MAX_BETWEEN:]))


def changes_between(before: str, after: str) -> tuple[Change, ...]:
    """What differs between two argument texts: by argument where both are JSON objects, else the texts themselves."""
    if before == after:
        return ()
    try:
        return _changed_arguments(_as_object(before), _as_object(after))
    except (ValueError, RecursionError):
        return (_change("", before, after),)


def _changed_arguments(old: dict[str, object], new: dict[str, object]) -> tuple[Change, ...]:
    names = [*old, *(name for name in new if name not in old)]
    return tuple(
        _change(excerpt(name, _NAME_CHARS), _as_text(old.get(name, "")), _as_text(new.get(name, "")))
        for name in names
        if old.get(name) != new.get(name)
    )


def _change(argument: str, before: str, after: str) -> Change:
    """The change, told from a little before the first difference on: long values often begin alike."""
    start = 0
    if max(len(before), len(after)) > EXCERPT_CHARS:
        pairs = zip(before[:_READ_CHARS], after[:_READ_CHARS], strict=False)
        alike = next((place for place, (one, other) in enumerate(pairs) if one != other), 0)
        start = max(0, alike - _CONTEXT_CHARS)
    lead = "…" if start else ""
    return Change(argument, lead + excerpt(before[start:]), lead + excerpt(after[start:]))


def _as_object(text: str) -> dict[str, object]:
    """The JSON object of `text`. Raises ValueError for anything else, RecursionError for too deep a one."""
    value = json.loads(text) if len(text) <= _MAX_JSON_CHARS else None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text[:_READ_CHARS].lower()))


def _similarity(one: frozenset[str], other: frozenset[str]) -> float:
    union = one | other
    return len(one & other) / len(union) if union else 1.0
