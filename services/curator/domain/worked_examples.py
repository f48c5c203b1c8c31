"""Worked examples of an operation: requests and the calls that fulfilled them, without the failed ones.

An argument whose values recur and decide another argument tells kinds of a thing apart; each kind gets an example.
Short examples of one operation share a text, so that more of them are served in the place of one.
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
CHARS_TOGETHER = 200
"""Characters of the examples that share a text. With 300, longer texts took the place of warnings."""
_USUAL_SHARE = 2 / 3
"""The share of the tasks beyond which a value is usual. With half of them, examples were replaced twice as often."""


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """One or several examples; `heading` is the key of their bullet, which better examples replace."""

    heading: str
    text: str
    shown: str
    sources: tuple[Source, ...]


def select_worked_examples(evidence: Evidence) -> Iterator[WorkedExample]:
    """Yield the examples of an operation that two tasks completed with it, or of its only success."""
    if _completes_tasks(evidence):
        needed = _find_needed_operations(evidence)
    elif _is_only_success(evidence):
        needed = _find_needed_operations(evidence) - _list_failed_calls(evidence)
    else:
        return
    heading = f"Example of `{evidence.operation}`"
    sources = tuple(Source(trajectory=example.trajectory) for example in evidence.examples)
    for number, texts in enumerate(_group(evidence, needed)):
        shown = "; ".join(texts)
        yield WorkedExample(f"{heading} {number}" if number else heading, f"{heading}: {shown}", shown, sources)


def _completes_tasks(evidence: Evidence) -> bool:
    """Return whether two tasks have an example, and one of them ends with the operation.

    Lookups complete no task; their examples would only displace others.
    """
    ends = any(example.operations[-1] == evidence.operation for example in evidence.examples)
    return ends and len(evidence.examples) >= MIN_TASKS


def _is_only_success(evidence: Evidence) -> bool:
    """Return whether one task alone succeeded, after calls that no failed trajectory made and no error asks for."""
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


def _group(evidence: Evidence, needed: set[str]) -> list[list[str]]:
    """Return the texts of the chosen examples, and of others that fit beside them, short ones together."""
    ranked = _rank(evidence)
    chosen = _choose(evidence, ranked)
    groups: list[list[str]] = [[]]
    for example in dict.fromkeys([*chosen, *ranked]):
        pairs = zip(example.calls, example.operations, strict=True)
        text = f'"{example.request}" → {", ".join(call for call, called in pairs if called in needed)}'
        if not groups[-1] or len("; ".join([*groups[-1], text])) <= CHARS_TOGETHER:
            groups[-1].append(text)
        elif example in chosen:
            groups.append([text])
    return groups


def _find_needed_operations(evidence: Evidence) -> set[str]:
    """Return the operation and those that every successful trajectory with it called: the others were not needed."""
    passed = [item for item in evidence.observations if item.passed is True and not item.error]
    called = [{*item.others} for item in passed]
    return {evidence.operation} | (set.intersection(*called) if called else set())


def _rank(evidence: Evidence) -> list[Example]:
    """Return the examples with the most usual values first, the shortest of equals."""
    usual = _find_usual_values(_list_working_calls(evidence))

    def count_usual(example: Example) -> int:
        values = _read_values(evidence, example)
        return sum(values.get(name) == value for name, value in usual.items())

    return sorted(evidence.examples, key=count_usual, reverse=True)


def _choose(evidence: Evidence, ranked: Sequence[Example]) -> list[Example]:
    """Return the first example, and one for each further kind."""
    values = {example.trajectory: _read_values(evidence, example) for example in ranked}
    chosen = [*ranked[:1]]
    for name, kinds in _find_kinds(_list_working_calls(evidence)).items():
        for kind in kinds:
            fitting = [example for example in ranked if values[example.trajectory].get(name) == kind]
            if not {*fitting} & {*chosen}:
                chosen += fitting[:1]
    return chosen[:MAX_SHOWN]


def _list_working_calls(evidence: Evidence) -> list[Observation]:
    return [item for item in evidence.observations if not item.error and item.passed is not False]


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
