"""Lessons that the evidence of several tasks supports: repairs, contrasts of passed and failed trajectories, examples.

What repaired a call in one task is reported beside its error until several tasks support a lesson.
A lesson states constant values, and shows varying values by calls that worked, or by the argument that decides
it. A repair counts if two tasks show it and no call contradicts it. A difference between passed and failed trajectories
counts if it is significant over all that were tried for the operation (Benjamini & Hochberg 1995, Fisher's exact test).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from libs.trajectories.operations import COMMAND_FIELDS
from services.curator.domain.decided_values import find_decisions, name_argument
from services.curator.domain.evidence import Evidence, Observation, count_tasks, list_argument_names, parse_arguments
from services.curator.domain.playbook import Source
from services.curator.domain.significance import calculate_chance, select_significant

MIN_TASKS = 2
MIN_ERRORS = 2
PITFALLS = "troubleshooting_and_pitfalls"
STRATEGIES = "strategies_and_hard_rules"
EXAMPLES = "examples"
MAX_SHAPES = 2
"""An argument whose working values have more forms is free text."""
_SHARE_CHANGED = 0.8
"""The share of the repaired tasks in which an argument must have changed to be the cause."""
_VALUES_SHOWN = 2
_COMMAND_CHARS = 120
_OPTION = re.compile(r"(?<!\S)--?[A-Za-z][\w-]*")
_TOKEN = re.compile(r"--?[A-Za-z][\w-]*|\w+")
_CLASSES = (
    (re.compile(r"\d+"), "9"),
    (re.compile(r"[^\W\d_]*[^\WA-Z\d_][^\W\d_]*"), "a"),
    (re.compile(r"[A-Z]+"), "A"),
)
_WORDS = re.compile(r"\ba(?:\W+a)+\b")


@dataclass(frozen=True, slots=True)
class GeneralLesson:
    """A lesson of an operation. `heading` is the key by which its bullet is found again."""

    heading: str
    text: str
    section: str
    sources: tuple[Source, ...]
    other_operation: str = ""
    """The operation whose presence or absence separates failed trajectories; `chance` is the probability by chance."""
    chance: float = 1.0
    errors: tuple[str, ...] = ()
    """The errors that the lesson explains in the place of lessons on each."""
    is_report: bool = False
    """True if the text only reports what worked in one task."""


def derive_lessons(evidence: Evidence) -> list[GeneralLesson]:
    """Return the lessons that the record of an operation supports now. Deterministic."""
    return [
        *(decisions := _explain_by_decisions(evidence)),
        *_explain_errors(evidence, {error for lesson in decisions for error in lesson.errors}),
        *_contrast_values(evidence),
        *_contrast_calls(evidence),
        *_show_examples(evidence),
    ]


@lru_cache(maxsize=16_384)
def find_shape(value: str) -> str:
    """Return the form of a value: digits as 9, words as a, capitals as A; several words in a row as `words`."""
    for pattern, placeholder in _CLASSES:
        value = pattern.sub(placeholder, value)
    return _WORDS.sub("words", value)


def _explain_by_decisions(evidence: Evidence) -> list[GeneralLesson]:
    """Return how one argument decides another, if errors with different messages together show it.

    The messages name the value of one task ("the carrier of Spain is IBERLOG"), so each has few tasks.
    """
    items = [item for item in evidence.observations if _is_repair(item) and item.repaired_with == evidence.operation]
    errors = tuple(dict.fromkeys(item.error for item in items))
    if len(errors) < MIN_ERRORS:
        return []
    worked = [item for item in evidence.observations if not item.error and item.passed is not False]
    decided = find_decisions(items, [*worked, *(replace(item, arguments=item.repair or "") for item in items)])
    return [
        GeneralLesson(
            heading := f"`{evidence.operation}`: {name_argument(name)} follows",
            f"{heading}{text.removeprefix('follows')}; calls with another value failed.",
            PITFALLS,
            _build_sources(items),
            errors=errors,
        )
        for name, text in decided.items()
    ]


def _explain_errors(evidence: Evidence, explained: set[str]) -> Iterator[GeneralLesson]:
    repaired: dict[str, list[Observation]] = {}
    for item in evidence.observations:
        if _is_repair(item) and item.error not in explained:
            repaired.setdefault(item.error, []).append(item)
    for error, items in repaired.items():
        heading = f'`{evidence.operation}` fails with "{error}"'
        remedy = _describe_remedy(evidence, items) if count_tasks(items) >= MIN_TASKS else ""
        reports = (_report_repair(evidence.operation, item) for item in reversed(items))
        if text := f"{heading}{remedy}" if remedy else next(filter(None, reports), ""):
            yield GeneralLesson(heading, text, PITFALLS, _build_sources(items), is_report=not remedy)


def _is_repair(item: Observation) -> bool:
    """Return whether a repair is evidence: its trajectory did not fail, and succeeded if it has a new option."""
    if not item.error or item.repair is None or item.passed is False:
        return False
    return item.passed is True or not {*_OPTION.findall(item.repair)} - {*_OPTION.findall(item.arguments)}


def _describe_remedy(evidence: Evidence, items: Sequence[Observation]) -> str:
    """Return the common parts of the repairs of one error; empty without any."""
    operations = {item.repaired_with for item in items}
    if operations != {evidence.operation}:
        shown = _join(dict.fromkeys(", ".join(parse_arguments(item.repair or "").values()) for item in items))
        return f"; use `{operations.pop()}` instead, as in {shown}." if len(operations) == 1 else ""
    worked = [item for item in evidence.observations if not item.error]
    repaired = [replace(item, arguments=item.repair or "") for item in items]
    names = list_argument_names([*items, *repaired])
    changes = [change for name in names if (change := _describe_change(name, items, worked))]
    if changes:
        return f": {'; '.join(changes)}."
    if decided := find_decisions(items, [*worked, *repaired]):
        return f": {'; '.join(f'{name_argument(name)} {text}' for name, text in decided.items())}."
    between = set.intersection(*({*item.between} for item in items))
    first = [name for name in items[0].between if name in between]
    return f" until {_join_names(first)} was called: call it first." if first else ""


def _report_repair(operation: str, item: Observation) -> str:
    """Return a failure and what worked in one trajectory that passed, as a report: it is no rule yet.

    Empty if other arguments than the command changed: their values may be those of the task.
    """
    repaired = parse_arguments(item.repair or "")
    changed = {name for name in {*item.values, *repaired} if item.values.get(name) != repaired.get(name)}
    command = ", ".join(repaired.values()) if changed else ""
    is_repeatable = changed <= {"", *COMMAND_FIELDS} and len(command) <= _COMMAND_CHARS
    if item.passed is not True or not is_repeatable or not (command or item.between):
        return ""
    return _REPORTS[item.language](f"`{operation}`", item.error, command, _join_names(item.between))


def _report_in_english(operation: str, error: str, command: str, before: str) -> str:
    worked = f'"{command}" worked' if command else "it worked"
    return f'{operation} fails with "{error}"; in one task {worked}{f" after {before}" if before else ""}.'


def _report_in_japanese(operation: str, error: str, command: str, before: str) -> str:
    worked = f"「{command}」で成功した" if command else "成功した"
    return f"{operation}は「{error}」で失敗する。あるタスクでは{f'{before}の後、' if before else ''}{worked}。"


_REPORTS = {"en": _report_in_english, "ja": _report_in_japanese}


def _describe_change(name: str, items: Sequence[Observation], worked: Sequence[Observation]) -> str:
    pairs = [(item, item.values.get(name, ""), _find_repaired_value(item, name)) for item in items]
    changed = [(item, before, after) for item, before, after in pairs if before != after]
    tasks = count_tasks(item for item, _, _ in changed)
    if tasks < MIN_TASKS or tasks < _SHARE_CHANGED * count_tasks(items):
        return ""
    bad = [(item.task, before) for item, before, _ in changed]
    good = [(item.task, after) for item, _, after in changed]
    good += [(item.task, item.values.get(name, "")) for item in worked]
    if not _is_separated(bad, good):
        return ""
    return f"{name_argument(name)} worked as {_show(good)}, failed as {_show(bad)}"


def _find_repaired_value(item: Observation, name: str) -> str:
    return parse_arguments(item.repair or "").get(name, "")


def _is_separated(bad: Sequence[tuple[str, str]], good: Sequence[tuple[str, str]]) -> bool:
    """Return whether the (task, value) pairs that failed differ from those that worked: by form, value or word."""
    bad_values, good_values = {value for _, value in bad}, {value for _, value in good}
    shapes = {find_shape(value) for value in good_values}
    if len(shapes) <= MAX_SHAPES and shapes.isdisjoint(find_shape(value) for value in bad_values):
        return True
    if bad_values.isdisjoint(good_values) and (len(good_values) == 1 or _count_most_tasks(bad) >= MIN_TASKS):
        return True
    common = set.intersection(*({*_TOKEN.findall(value)} for value in good_values))
    return bool(common.difference(*(_TOKEN.findall(value) for value in bad_values)))


def _count_most_tasks(pairs: Iterable[tuple[str, str]]) -> int:
    """Return the number of tasks of the value that most tasks have."""
    tasks: dict[str, set[str]] = {}
    for task, value in pairs:
        tasks.setdefault(value, set()).add(task)
    return max(map(len, tasks.values()), default=0)


def _contrast_values(evidence: Evidence) -> Iterator[GeneralLesson]:
    """Yield the arguments whose value or form only failed trajectories have, if that is significant.

    At least two of their tasks must also have a passed trajectory.
    """
    worked = [item for item in evidence.observations if not item.error]
    passed = [item for item in worked if item.passed is True]
    failed = [item for item in worked if item.passed is False]
    passed_tasks = {item.task for item in passed}
    names = list_argument_names(worked)
    different: dict[str, list[Observation]] = {}
    chances: dict[str, float] = {}
    for name in names:
        bad = _find_different(name, failed, {item.values.get(name, "") for item in passed})
        if len(passed_tasks) >= MIN_TASKS and len({item.task for item in bad} & passed_tasks) >= MIN_TASKS:
            failing = len({item.trajectory for item in bad})
            others = len({item.trajectory for item in failed}) - failing
            different[name] = bad
            chances[name] = calculate_chance(failing, others, len({item.trajectory for item in passed}))
    decided = find_decisions(failed, passed)
    for name, decision in decided.items():
        heading = f"`{evidence.operation}`: {name_argument(name)}"
        text = f"{heading} {decision} in successes; trajectories with another value failed."
        yield GeneralLesson(heading, text, STRATEGIES, _build_sources([*failed, *passed]))
    for name in select_significant(chances, len(names)):
        if name in decided:
            continue
        heading = f"`{evidence.operation}`: {name_argument(name)}"
        good = _show((item.task, item.values.get(name, "")) for item in passed)
        bad_values = _show((item.task, item.values.get(name, "")) for item in different[name])
        text = f"{heading} as {good} in successes; as {bad_values} only in failures."
        yield GeneralLesson(heading, text, STRATEGIES, _build_sources([*different[name], *passed]))


def _find_different(name: str, items: Sequence[Observation], good_values: set[str]) -> list[Observation]:
    """Return the calls whose value is not the one good value, or not of the one form of the good values; else none."""
    if len(good_values) == 1:
        return [item for item in items if item.values.get(name, "") not in good_values]
    shapes = {find_shape(value) for value in good_values}
    return [item for item in items if len(shapes) == 1 and find_shape(item.values.get(name, "")) not in shapes]


def _contrast_calls(evidence: Evidence) -> Iterator[GeneralLesson]:
    """Yield the other operations that all or no passed trajectories called, if that separates failed trajectories."""
    trajectories = {item.trajectory: item for item in evidence.observations if item.passed is not None}
    passed = [item for item in trajectories.values() if item.passed]
    failed = [item for item in trajectories.values() if not item.passed]
    replacements = {item.repaired_with for item in evidence.observations}  # the lessons on errors name them
    names = sorted({name for item in trajectories.values() for name in item.others} - replacements)
    chances: dict[str, float] = {}
    for name in names:
        failing, passing = (sum(name in item.others for item in side) for side in (failed, passed))
        if passing == len(passed):
            chances[name] = calculate_chance(len(failed) - failing, failing, passing)
        elif passing == 0:
            chances[name] = calculate_chance(failing, len(failed) - failing, len(passed))
    for name in select_significant(chances, len(names)):
        is_missed = all(name in item.others for item in passed)
        heading = f"`{evidence.operation}`: {'also call' if is_missed else 'do not call'} `{name}`"
        reason = "trajectories without it failed" if is_missed else "trajectories with it failed"
        sources = _build_sources(list(trajectories.values()))
        yield GeneralLesson(heading, f"{heading}; {reason}.", STRATEGIES, sources, name, chances[name])


def _show_examples(evidence: Evidence) -> Iterator[GeneralLesson]:
    """Yield the examples of an operation with which the trajectories of two tasks end.

    All calls are shown: whether a task needed a lookup is unknown, and an agent repeats the sequence.
    """
    if len(evidence.examples) < MIN_TASKS:
        return
    for example in evidence.examples:
        text = f'Example: "{example.request}" → {", ".join(example.calls)}'
        yield GeneralLesson(f"Example {example.task}", text, EXAMPLES, (Source(trajectory=example.trajectory),))


def _build_sources(items: Sequence[Observation]) -> tuple[Source, ...]:
    steps: dict[str, list[int]] = {}
    for item in items:
        steps.setdefault(item.trajectory, []).append(item.step)
    return tuple(Source(trajectory=name, steps=tuple(numbers)) for name, numbers in steps.items())


def _show(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the values of the first two tasks, or the one value that all have."""
    return _join(dict.fromkeys(value for _, value in pairs))


def _join(values: Iterable[str]) -> str:
    shown = [f'"{value}"' if value else "absent" for value, _ in zip(values, range(_VALUES_SHOWN), strict=False)]
    return " or ".join(shown)


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names[:_VALUES_SHOWN])
