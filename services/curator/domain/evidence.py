"""Evidence from the tool calls of many trajectories, one record for each operation.

One trajectory may show something by chance, so its calls wait here. `general_lessons` derives the lessons that several
tasks support.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256

from chassis.json_texts import MAX_NESTING, format_as_text, parse_shallow_json
from libs.prompts.language import Language, detect_language
from services.curator.domain.curation import EvidenceCall, Reflection

MAX_OBSERVATIONS = 24
"""Observations of a record; the oldest ones give way."""
MAX_EXAMPLES = 8
MAX_OPERATIONS = 24
"""Operations of one trajectory that are recorded."""
_MAX_SUCCESSES = 2
_MAX_CALLS_SHOWN = 8
_REQUEST_CHARS = 160
_ARGUMENTS_CHARS = 480
"""Characters of the arguments of a call in an example; a call that is cut cannot be repeated."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One call of an operation in one trajectory.

    `passed` is the outcome of the trajectory, None if only the agent reports it. A failed call has its `error`; if a
    later call repaired it, `repair` has the arguments of that call, `repaired_with` its operation, and `between` the
    operations that worked before it. `others` are the other operations that worked in the trajectory.
    """

    task: str
    trajectory: str
    step: int
    arguments: str
    passed: bool | None = None
    error: str = ""
    repair: str | None = None
    repaired_with: str = ""
    between: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    language: Language = "en"
    """The language of the request."""

    @property
    def values(self) -> Mapping[str, str]:
        """Return the texts of the arguments by name."""
        return parse_arguments(self.arguments)


@dataclass(frozen=True, slots=True)
class Example:
    """The request of a trajectory that passed, and its calls without the failed ones, with the operation of each.

    It belongs to the record of the operation that it ends with.
    """

    task: str
    trajectory: str
    request: str
    calls: tuple[str, ...]
    operations: tuple[str, ...] = ()
    """Empty in records of versions whose calls begin with their operation."""

    def __post_init__(self) -> None:
        """Complete a record without operations."""
        if not self.operations:
            object.__setattr__(self, "operations", tuple(call.split("`")[1] for call in self.calls))


@dataclass(frozen=True, slots=True)
class Evidence:
    """The record of one operation. `published` has the text of each lesson that was proposed, by its heading."""

    operation: str
    observations: tuple[Observation, ...] = ()
    examples: tuple[Example, ...] = ()
    published: Mapping[str, str] = field(default_factory=dict)

    @property
    def trajectories(self) -> set[str]:
        """Return the trajectories of the record."""
        return {item.trajectory for item in self.observations} | {item.trajectory for item in self.examples}

    def drop_trajectory(self, trajectory: str) -> Evidence:
        """Return the record without a trajectory."""
        return replace(
            self,
            observations=tuple(item for item in self.observations if item.trajectory != trajectory),
            examples=tuple(item for item in self.examples if item.trajectory != trajectory),
        )


def list_operations(reflection: Reflection) -> list[str]:
    """Return the operations of a reflection that are recorded; none for a trajectory without an id."""
    if not reflection.trajectory_id:
        return []
    return list(dict.fromkeys(call.operation for call in reflection.calls))[:MAX_OPERATIONS]


def add_trajectory(evidence: Evidence, reflection: Reflection) -> Evidence:
    """Return the record with the calls of one more trajectory, unless it has them."""
    if reflection.trajectory_id in evidence.trajectories:
        return evidence
    observations = (*evidence.observations, *_build_observations(evidence.operation, reflection))
    is_example = reflection.is_reliable and reflection.is_success
    added = (_build_example(reflection),) if is_example else ()
    examples = _select_examples(evidence.operation, (*evidence.examples, *added))
    return replace(evidence, observations=observations[-MAX_OBSERVATIONS:], examples=examples)


def _build_observations(operation: str, reflection: Reflection) -> Iterable[Observation]:
    """Yield the first calls that worked, and the first call with each error."""
    calls = reflection.calls
    worked = dict.fromkeys(call.operation for call in calls if not call.error and call.operation != operation)
    seen: set[str] = set()
    successes = 0
    for position, call in enumerate(calls):
        if call.operation != operation or call.error in seen:
            continue
        if call.error:
            seen.add(call.error)
        elif (successes := successes + 1) > _MAX_SUCCESSES:
            continue
        fixed = None if call.repaired_by is None or call.repaired_by >= len(calls) else calls[call.repaired_by]
        yield Observation(
            task=_hash_task(reflection),
            trajectory=reflection.trajectory_id,
            step=call.step,
            arguments=call.arguments,
            passed=reflection.is_success if reflection.is_reliable else None,
            error=call.error,
            repair=None if fixed is None else fixed.arguments,
            repaired_with="" if fixed is None else fixed.operation,
            between=() if fixed is None else _list_others(calls[position + 1 : call.repaired_by], operation),
            others=tuple(worked)[:MAX_OPERATIONS],
            language=detect_language(reflection.query),
        )


def _list_others(calls: Sequence[EvidenceCall], operation: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(call.operation for call in calls if not call.error and call.operation != operation))


def _hash_task(reflection: Reflection) -> str:
    return sha256((reflection.task_id or reflection.query).encode()).hexdigest()[:16]


def _build_example(reflection: Reflection) -> Example:
    calls = {
        f"`{call.tool or call.operation}` {_nest(call.arguments)[:_ARGUMENTS_CHARS]}".strip(): call.operation
        for call in reflection.calls
        if not call.error
    }
    request = " ".join(reflection.query.split())[:_REQUEST_CHARS]
    return Example(_hash_task(reflection), reflection.trajectory_id, request, tuple(calls), tuple(calls.values()))


def _nest(arguments: str) -> str:
    """Return flat arguments with objects for the names that dots join, as the agent wrote them."""
    try:
        flat = parse_shallow_json(arguments)
    except ValueError:
        return arguments
    if not isinstance(flat, dict) or not any("." in name for name in flat):
        return arguments
    nested: dict[str, object] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        if len(path) >= MAX_NESTING:
            return arguments
        parent = nested
        for part in path:
            child = parent.setdefault(part, {})
            if not isinstance(child, dict):
                return arguments
            parent = child
        parent[last] = value
    return json.dumps(nested, ensure_ascii=False)


def _select_examples(operation: str, examples: Iterable[Example]) -> tuple[Example, ...]:
    """Return the examples with the fewest calls that end with an operation, one of each task; earlier ones first.

    Two tasks with one request are one task: a reader could not tell their examples apart.
    """
    chosen: list[Example] = []
    for example in sorted(examples, key=lambda example: len(example.calls)):
        fits = len(example.calls) <= _MAX_CALLS_SHOWN and example.operations[-1:] == (operation,)
        if fits and not any(example.task == other.task or example.request == other.request for other in chosen):
            chosen.append(example)
    return tuple(chosen[:MAX_EXAMPLES])


@lru_cache(maxsize=16_384)
def parse_arguments(arguments: str) -> Mapping[str, str]:
    """Return the texts of a JSON object by name; any other text has the name ""."""
    try:
        value = parse_shallow_json(arguments)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return {"": arguments}
    return {name: format_as_text(item) for name, item in value.items()}


def list_argument_names(items: Iterable[Observation]) -> list[str]:
    """Return the names of the arguments of calls, in order."""
    return list(dict.fromkeys(name for item in items for name in item.values))


def count_tasks(items: Iterable[Observation]) -> int:
    """Return the number of tasks of calls."""
    return len({item.task for item in items})
