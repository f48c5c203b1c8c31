"""Finds arguments whose value another argument decides, as the country of a parcel decides its carrier."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import permutations

from services.curator.domain.evidence import Observation, count_tasks, list_argument_names, parse_arguments
from services.curator.domain.significance import calculate_chance, select_significant

MIN_TASKS = 2
MIN_VALUES = 2
_DECISIONS_SHOWN = 8


def find_decisions(bad: Sequence[Observation], good: Sequence[Observation]) -> dict[str, str]:
    """Return a sentence for each argument whose value follows another argument, by the name of the argument.

    In all good calls, equal values of the other argument come with equal values of this one; in bad calls of two tasks
    they do not. Unless the errors state the values, both must be statistically significant.
    """
    stated: list[str] = []
    chances: dict[str, float] = {}
    decisions: dict[str, tuple[str, str, dict[str, str]]] = {}
    tried = 0
    for condition, name in permutations(list_argument_names(good), 2):
        pairs = {(item.task, item.values.get(condition, ""), item.values.get(name, "")) for item in good}
        rights = {state: value for _, state, value in pairs}
        counts = Counter(value for _, _, value in pairs)
        repeats = len({(task, state) for task, state, _ in pairs}) - len(rights)
        tried += repeats > 0
        matching = [item for item in bad if item.values.get(condition, "") in rights]
        broken = [item for item in matching if item.values.get(name, "") != rights[item.values.get(condition, "")]]
        is_decided = all(rights[state] == value for _, state, value in pairs)
        if not is_decided or len(counts) < MIN_VALUES or count_tasks(broken) < MIN_TASKS:
            continue
        key = f"{_count_varying_tasks(condition, [*bad, *good]):09} {condition} {name}"  # the task sets it
        decisions[key] = (condition, name, rights)
        if _is_stated(broken, condition, name):
            stated.append(key)
        elif repeats:
            agreement = sum((count / len(pairs)) ** 2 for count in counts.values())
            failing, others = (len({item.trajectory for item in items}) for items in (broken, matching))
            passing = len({item.trajectory for item in good})
            chances[key] = max(agreement**repeats, calculate_chance(failing, others - failing, passing))
    found: dict[str, str] = {}
    explained: set[str] = set()
    for key in [*sorted(stated), *select_significant(chances, tried)]:
        condition, name, rights = decisions[key]
        if not {condition, name} & explained:
            explained |= {condition, name}
            shown = [f'"{value}" with "{state}"' for state, value in sorted(rights.items())]
            found[name] = f"follows {name_argument(condition)}: {', '.join(shown[:_DECISIONS_SHOWN])}"
    return found


def _is_stated(broken: Iterable[Observation], condition: str, name: str) -> bool:
    """Return whether errors of several tasks state several values of an argument, each with the value that worked."""
    stating = [
        item
        for item in broken
        if _contains(item.error, item.values.get(condition))
        and _contains(item.error, parse_arguments(item.repair or "").get(name))
    ]
    return count_tasks(stating) >= MIN_TASKS and len({item.values[condition] for item in stating}) >= MIN_VALUES


def _contains(error: str, value: str | None) -> bool:
    """Return whether an error contains a value as a whole."""
    return bool(value and re.search(rf"(?<![\w.]){re.escape(value)}(?!\.?\w)", error))


def _count_varying_tasks(name: str, items: Iterable[Observation]) -> int:
    """Return the number of tasks whose calls have different values of an argument."""
    return sum(
        count > 1 for count in Counter(task for task, _ in {(i.task, i.values.get(name)) for i in items}).values()
    )


def name_argument(name: str) -> str:
    """Return an argument as lessons name it."""
    return f"`{name}`" if name else "the input"
