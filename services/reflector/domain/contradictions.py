"""Finds results that contradict each other: different answers to the same question without a change in between.

A question is a call with its arguments, or a field of an object with an id, whichever tool reports it. Volatile fields
(a state, a time, a token) are ignored. A call that may have changed something invalidates all earlier facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from libs.trajectories.actions import ToolUse, build_call_signature
from libs.trajectories.excerpts import shorten_text
from libs.trajectories.tool_errors import normalize_message, parse_json_container
from services.reflector.domain.findings import TrajectoryFinding, select_steps

MAX_FACTS_OF_A_RESULT = 64
MAX_FACTS = 50_000
"""The facts of a trajectory that are remembered; further ones are ignored until a call changes something."""
_MAX_LEVELS = 6
_TEXT_CHARS = 2_000
_NAME_CHARS = 60

_READS = frozenset(
    [
        *("browse", "calculate", "cat", "check", "compute", "count", "describe", "diff", "explain", "fetch"),
        *("find", "get", "grep", "head", "info", "inspect", "list", "log", "look", "lookup", "ls", "options"),
        *("pragma", "query", "read", "retrieve", "search", "select", "show", "stat", "status", "tail", "think"),
        *("view", "with"),
    ]
)
_WRITES = frozenset(
    [
        *("add", "alter", "apply", "bash", "book", "buy", "cancel", "change", "clear", "click", "code", "commit"),
        *("console", "create", "delete", "deploy", "do", "drop", "edit", "execute", "insert", "install", "merge"),
        *("move", "open", "patch", "pay", "post", "publish", "push", "put", "python", "refresh", "register"),
        *("reload", "remove", "replace", "reset", "rm", "run", "save", "send", "set", "sh", "shell", "start"),
        *("stop", "submit", "sync", "terminal", "type", "update", "upload", "wait", "write"),
    ]
)
_CHAINED = re.compile(r"[;&|>]")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_VOLATILE = re.compile(
    r"(?:^|_)(?:status|state|progress|phase|time|timestamp|date|at|updated|modified|expires|elapsed|duration|latency|age"
    r"|uptime|token|nonce|cursor|etag|version|request_id|trace_id|session_id|score|rank|position|distance|remaining)$",
    re.I,
)
_PASSING = re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?|\b\d\d?:\d\d(?::\d\d)?\b")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")

Question = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Fact:
    """One fact of a result: the question that it answers, its readable name, and the answer."""

    question: Question
    name: str
    value: str


def find_contradictions(actions: Sequence[ToolUse]) -> Iterator[TrajectoryFinding]:
    """Yield one finding for each fact of each operation on which results disagree, in linear time."""
    reported: set[tuple[str, str]] = set()
    answers: dict[Question, tuple[str, ToolUse]] = {}
    for action in actions:
        facts = _extract_facts(action) if action.is_success else []
        if not _reads(action):
            answers = _drop_invalid(answers, facts, action)
        for fact in facts:
            value, earlier = answers.get(fact.question, (fact.value, action))
            if value != fact.value and (action.operation, fact.name) not in reported:
                reported.add((action.operation, fact.name))
                yield _build_finding(earlier, action, fact, value)
            if fact.question in answers or len(answers) < MAX_FACTS:
                answers[fact.question] = (fact.value, action)


def _drop_invalid(
    answers: Mapping[Question, tuple[str, ToolUse]], facts: Sequence[_Fact], action: ToolUse
) -> dict[Question, tuple[str, ToolUse]]:
    """Return the facts that remain valid after a call that may have changed something: at most those in its result."""
    if _is_write(action):
        return {}
    return {fact.question: answers[fact.question] for fact in facts if fact.question in answers}


def _reads(action: ToolUse) -> bool:
    """Return whether the operation's name indicates that it only reads."""
    return bool(_split_words(action.operation) & _READS) and not _is_write(action)


def _is_write(action: ToolUse) -> bool:
    """Return whether an operation changes something, by its name; several commands in a line count as a change."""
    is_command = not action.operation.startswith(action.tool)
    return bool(_split_words(action.operation) & _WRITES) or (is_command and bool(_CHAINED.search(action.arguments)))


@lru_cache(maxsize=1024)
def _split_words(operation: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(operation))


def _extract_facts(action: ToolUse) -> list[_Fact]:
    """Return the facts of a result, at most `MAX_FACTS_OF_A_RESULT`."""
    call = build_call_signature(action)
    value = parse_json_container(action.output)
    if value is None:
        return _extract_text_facts(call, action.output)
    arguments = _collect_arguments(action.arguments)
    found: dict[Question, _Fact] = {}
    for path, name, owner, answer in _iterate_leaves(value):
        if len(found) >= MAX_FACTS_OF_A_RESULT:
            break
        if not _VOLATILE.search(name):
            fact = _Fact((*call, *path), name, answer)
            found.setdefault(fact.question, fact)
            thing = _find_identity(owner, name)
            if thing is not None:
                others = frozenset(item for item in arguments.items() if item[1] != thing[1])
                question = ("thing", *thing, others, name)
                found.setdefault(question, _Fact(question, name, answer))
    return list(found.values())


def _extract_text_facts(call: tuple[str, str], output: str) -> list[_Fact]:
    """Return the lines of a short text as facts: the text of a line is the key, its numbers are the value."""
    if len(output) > _TEXT_CHARS:
        return []
    facts: dict[Question, _Fact] = {}
    for line in output.splitlines()[:MAX_FACTS_OF_A_RESULT]:
        numbers = _NUMBER.findall(_PASSING.sub("", line))
        about = normalize_message(line.strip())
        if numbers and about:
            fact = _Fact((*call, about), about, ", ".join(numbers))
            facts.setdefault(fact.question, fact)
    return list(facts.values())


def _iterate_leaves(value: object) -> Iterator[tuple[tuple[object, ...], str, Mapping[str, object], str]]:
    """Yield path, name, owning object and text of each plain value, level by level down to `_MAX_LEVELS`."""
    level: list[tuple[tuple[object, ...], object]] = [((), value)]
    for _ in range(_MAX_LEVELS):
        below: list[tuple[tuple[object, ...], object]] = []
        for path, part in level:
            if isinstance(part, list):
                # A list is treated as a set: an item is identified by its id where it has one.
                below.extend(
                    (((*path, _find_key(item, at)), item)) for at, item in enumerate(part[:MAX_FACTS_OF_A_RESULT])
                )
            elif isinstance(part, dict):
                for name, item in part.items():
                    if isinstance(item, dict | list):
                        below.append(((*path, name), item))
                    elif item is not None:
                        yield (*path, name), name, part, json.dumps(item, ensure_ascii=False)
        level = below


def _find_key(item: object, at: int) -> object:
    identity = _find_identity(item, "") if isinstance(item, dict) else None
    return identity or at


def _find_identity(owner: Mapping[str, object], name: str) -> tuple[str, str] | None:
    """Return the id field of an object and its value, None if it has none besides the field `name`."""
    for key, value in owner.items():
        if key != name and (key == "id" or key.endswith("_id")) and isinstance(value, str | int):
            return key, str(value)
    return None


def _collect_arguments(arguments: str) -> dict[str, str]:
    value = parse_json_container(arguments)
    return {name: str(item) for name, item in value.items()} if isinstance(value, dict) else {"": arguments}


def _build_finding(earlier: ToolUse, later: ToolUse, fact: _Fact, before: str) -> TrajectoryFinding:
    facts = {
        "tool": later.operation,
        "agent": later.agent,
        "fact": shorten_text(fact.name, _NAME_CHARS).replace('"', "'"),
        "before": shorten_text(before.strip('"')),
        "after": shorten_text(fact.value.strip('"')),
        "first_step": str(earlier.last_step),
        "step": str(later.last_step),
    }
    return TrajectoryFinding("contradicted_result", select_steps([earlier.last_step, later.last_step]), facts)
