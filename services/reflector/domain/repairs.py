"""Finds what repaired a failing action: the later call of the same tool that worked, and what differed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from services.reflector.domain.actions import Action
from services.reflector.domain.excerpts import excerpt

MIN_SIMILARITY = 0.3
"""Share of common words from which a later call counts as another try of the same thing."""
_CANDIDATES = 8
"""Later successes of the same tool that are looked at."""
_READ_CHARS = 4_000
_MAX_JSON_CHARS = 100_000
_MAX_BETWEEN = 3
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Change:
    """An argument that differed between the failing and the working call; text is shortened."""

    argument: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Repair:
    """The call that worked after `failed` did not, what differed, and the other tools used successfully in between."""

    failed: Action
    fixed: Action
    changes: tuple[Change, ...]
    tools_between: tuple[str, ...]


def repairs_of(actions: Sequence[Action]) -> dict[int, Repair]:
    """The repair of each failing action that has one, by the action's position in `actions`.

    Every failing action looks at a fixed number of later successes, so the cost is linear in the actions.
    """
    later: dict[str, list[int]] = {}
    found: dict[int, Repair] = {}
    for position in range(len(actions) - 1, -1, -1):
        action = actions[position]
        if action.succeeded:
            later.setdefault(action.tool, []).append(position)
        elif action.error is not None:
            words = _words(action.arguments)
            for candidate in reversed(later.get(action.tool, [])[-_CANDIDATES:]):
                if _similarity(words, _words(actions[candidate].arguments)) >= MIN_SIMILARITY:
                    found[position] = _repair(actions, position, candidate)
                    break
    return found


def _repair(actions: Sequence[Action], failed: int, fixed: int) -> Repair:
    between: list[str] = []
    for action in actions[failed + 1 : min(fixed, failed + 50)]:
        if action.succeeded and action.tool != actions[failed].tool and action.tool not in between:
            between.append(action.tool)
    changes = changes_between(actions[failed].arguments, actions[fixed].arguments)
    return Repair(actions[failed], actions[fixed], changes, tuple(between[-_MAX_BETWEEN:]))


def changes_between(before: str, after: str) -> tuple[Change, ...]:
    """What differs between two argument texts: by argument where both are JSON objects, else the texts themselves."""
    if before == after:
        return ()
    old, new = _as_object(before), _as_object(after)
    if old is None or new is None:
        return (Change("", _shown(before), _shown(after)),)
    names = [*old, *(name for name in new if name not in old)]
    return tuple(
        Change(name, _shown(old.get(name, "")), _shown(new.get(name, "")))
        for name in names
        if old.get(name) != new.get(name)
    )


def _as_object(text: str) -> dict[str, object] | None:
    if len(text) > _MAX_JSON_CHARS:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return excerpt(text)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text[:_READ_CHARS].lower()))


def _similarity(one: frozenset[str], other: frozenset[str]) -> float:
    union = one | other
    return len(one & other) / len(union) if union else 1.0
