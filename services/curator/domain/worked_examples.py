"""Worked examples of an operation: requests and the calls that fulfilled them, without the failed ones.

An argument whose values recur and decide another argument tells kinds of a thing apart; each kind gets an example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from services.curator.domain.evidence import (
    Evidence,
    Example,
    Observation,
    count_tasks,
    list_argument_names,
    parse_arguments,
)
from services.curator.domain.playbook import Source

MIN_TASKS = 2
MAX_SHOWN = 4
MAX_KINDS = 6
"""An argument with more values than this does not tell kinds apart."""
_USUAL_SHARE = 2 / 3
"""The share of the tasks beyond which a value is usual. With half of them, examples were replaced twice as often."""


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """An example of a playbook; `heading` is the key of its bullet, which a better example replaces."""

    heading: str
    text: str
    shown: str
    sources: tuple[Source, ...]


def select_worked_examples(evidence: Evidence) -> Iterator[WorkedExample]:
    """Yield the examples of an operation that completes tasks, or the example of its only success."""
    operation = evidence.operation
    if _completes_tasks(evidence):
        needed = _find_needed_operations(evidence)
    elif _is_only_success(evidence):
        needed = _find_needed_operations(evidence) - _list_failed_calls(evidence)
    else:
        return
    sources = tuple(Source(trajectory=example.trajectory) for example in evidence.examples)
    for key, example in _choose(evidence).items():
        pairs = zip(example.calls, example.operations, strict=True)
        calls = [call for call, called in pairs if called in needed]
        shown = f'"{example.request}" → {", ".join(calls)}'
        yield WorkedExample(f"Example of `{operation}`{key}", f"Example of `{operation}`: {shown}", shown, sources)


def _completes_tasks(evidence: Evidence) -> bool:
    """Return whether two tasks have an example, and one of them or failed trajectories of two end with the operation.

    Lookups complete no task; their examples would only displace others. A failed trajectory is assumed to end with the
    call that should have completed its task.
    """
    ends = any(example.operations[-1] == evidence.operation for example in evidence.examples)
    failed = [item for item in evidence.observations if item.is_last and item.passed is False]
    return len(evidence.examples) >= MIN_TASKS and (ends or count_tasks(failed) >= MIN_TASKS)


def _is_only_success(evidence: Evidence) -> bool:
    """Return whether one task alone succeeded, and then made calls that failed trajectories lack, without any error."""
    if not evidence.examples or any(item.error for item in evidence.observations):
        return False
    failed = [item for item in evidence.observations if item.passed is False]
    successful = {item.task for item in evidence.examples} | {item.task for item in _list_working_calls(evidence)}
    if len(successful) > 1 or count_tasks(failed) < MIN_TASKS:
        return False
    operations = evidence.examples[0].operations
    following = operations[len(operations) - operations[::-1].index(evidence.operation) :]
    return bool(following) and _list_failed_calls(evidence).isdisjoint(following)


def _list_failed_calls(evidence: Evidence) -> set[str]:
    """Return the other operations that worked in failed trajectories."""
    return {name for item in evidence.observations if item.passed is False for name in item.others}


def _list_working_calls(evidence: Evidence) -> list[Observation]:
    """Return the calls that worked in trajectories that did not fail."""
    return [item for item in evidence.observations if not item.error and item.passed is not False]


def _find_needed_operations(evidence: Evidence) -> set[str]:
    """Return the operation and those that every successful trajectory with it called: the others were not needed."""
    passed = [item for item in evidence.observations if item.passed is True and not item.error]
    called = [{*item.others} for item in passed]
    return {evidence.operation} | (set.intersection(*called) if called else set())


def _choose(evidence: Evidence) -> dict[str, Example]:
    """Return the most usual example, and one for each further kind."""
    worked = _list_working_calls(evidence)
    values = {example.trajectory: _read_values(evidence, example) for example in evidence.examples}
    usual = _find_usual_values(worked)

    def count_usual(example: Example) -> int:
        return sum(values[example.trajectory].get(name) == value for name, value in usual.items())

    chosen = {"": max(evidence.examples, key=count_usual)}  # the shortest of equals
    for name, kinds in _find_kinds(worked).items():
        for kind in kinds:
            if len(chosen) == MAX_SHOWN:
                return chosen
            if any(values[example.trajectory].get(name) == kind for example in chosen.values()):
                continue
            fitting = (item for item in evidence.examples if values[item.trajectory].get(name) == kind)
            example = next(fitting, None)
            if example is not None:
                chosen[f" with `{name}` {kind}"] = example
    return chosen


def _read_values(evidence: Evidence, example: Example) -> Mapping[str, str]:
    """Return the arguments of the operation's first call in an example, which may be older than the observations."""
    observed = (item for item in evidence.observations if item.trajectory == example.trajectory and not item.error)
    first = next(observed, None)
    if first is not None:
        return first.values
    pairs = zip(example.calls, example.operations, strict=True)
    shown = next((call for call, called in pairs if called == evidence.operation), "")
    return parse_arguments(shown.partition("` ")[2])


def _find_usual_values(worked: Sequence[Observation]) -> dict[str, str]:
    """Return the value of each argument that most calls that worked have, if several tasks have it."""
    usual: dict[str, str] = {}
    for name in list_argument_names(worked):
        pairs = dict.fromkeys((item.task, item.values[name]) for item in worked if name in item.values)
        value, tasks = Counter(value for _, value in pairs).most_common(1)[0]
        if tasks >= MIN_TASKS and tasks > _USUAL_SHARE * len(pairs):
            usual[name] = value
    return usual


def _find_kinds(worked: Sequence[Observation]) -> dict[str, list[str]]:
    """Return the values of the arguments that have a few, of which two or more recur in several tasks.

    Calls of failed trajectories are no evidence: where no error shows, their values are the wrong ones.
    """
    kinds: dict[str, list[str]] = {}
    for name in list_argument_names(worked):
        tasks: dict[str, set[str]] = {}
        for item in worked:
            tasks.setdefault(item.values.get(name, ""), set()).add(item.task)
        recurring = sum(len(seen) >= MIN_TASKS for seen in tasks.values())
        if recurring > 1 and len(tasks) <= MAX_KINDS and _decides_another(name, worked):
            kinds[name] = list(tasks)
    return kinds


def _decides_another(name: str, worked: Sequence[Observation]) -> bool:
    """Return whether each value of an argument goes with one value of another argument, and no two with the same."""
    for other in list_argument_names(worked):
        pairs = {(item.values.get(name, ""), item.values.get(other, "")) for item in worked}
        states, values = {state for state, _ in pairs}, {value for _, value in pairs}
        if other != name and len(pairs) == len(states) == len(values):
            return True
    return False
