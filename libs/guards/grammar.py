"""Propose predicates over tool calls, in a small grammar, as parts of targets in CEL.

A predicate is a condition on a call of one tool, optionally with modifiers: the user has not agreed, or a flag of the
call is set. Conditions are about the order of calls, values of arguments, arguments that no text or no result
contains, changed arguments, repeated calls, numbers of calls, comparisons with fields of earlier results, and the
fields of earlier results themselves. Generic predicates hold for all tools, or for all tools that may write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from chassis.targets.session import SessionHistory, ToolCallRequest

MAX_VALUE_CHARS = 60
MAX_FIELDS = 40
"""Fields of a result that predicates are about."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_READS = re.compile(
    r"(?:^|[^A-Za-z])(?:get|list|find|search|read|look|fetch|view|show|query|count|check|calculate|think)(?![a-z])"
)
UNCONFIRMED = "!user_confirmed()"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the calls of one tool; an empty tool means every tool, `*` every tool that may write."""

    tool: str
    expression: str
    kind: str


def may_write(tool: str) -> bool:
    """Return whether a tool may change something: its name has no verb of reading."""
    return not _READS.search(tool)


def quote(value: Any) -> str:
    """Return a text, a number, true, false or null as a literal of CEL."""
    if not isinstance(value, str):
        return json.dumps(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return "'" + escaped.replace("\t", "\\t") + "'"


def build_target(tool: str, writers: Iterable[str], conditions: Iterable[str]) -> str:
    """Return the target of conditions on the calls of a tool, of every tool, or of the tools that may write."""
    parts: list[str] = []
    if tool == "*":
        parts.append(f"call.tool in [{', '.join(quote(writer) for writer in sorted(writers))}]")
    elif tool:
        parts.append(f"call.tool == {quote(tool)}")
    parts.extend(condition for condition in conditions if condition != "true")
    return " && ".join(parts) or "true"


def propose_generic() -> Iterator[Condition]:
    """Yield the conditions that are about no tool in particular."""
    for tool in ("", "*"):
        yield Condition(tool, "repeats() > 0", "same call again")
        yield Condition(tool, "failures() > 0", "same call again after an error")
        yield Condition(tool, "failures() > 1", "same call again after two errors")
    for count in (1, 2, 3, 5):
        yield Condition("*", f"count(call.tool) >= {count}", "number of calls")
    yield Condition("*", "true", "call")
    yield Condition("*", "call.args.exists(name, !seen(call.args[name]))", "argument in no text or result")
    yield Condition("*", "call.args.exists(name, !found(call.args[name]))", "argument in no result")


def propose_flags(call: ToolCallRequest) -> Iterator[str]:
    """Yield conditions that flags of a call are set, which may modify another condition."""
    for name, value in call.args.items():
        if value is True and _NAME.fullmatch(name):
            yield f"call.args.{name} == true"


def propose(call: ToolCallRequest, session: SessionHistory, tools: Iterable[str]) -> Iterator[Condition]:
    """Yield the conditions of the grammar that may be true for one call; `tools` are those of its domain."""
    tool = call.tool
    if not may_write(tool):
        return
    yield Condition(tool, "true", "call")
    yield Condition(tool, "repeats() > 0", "same call again")
    yield Condition(tool, "failures() > 0", "same call again after an error")
    for count in (1, 2, 3, 5):
        if session.counts[tool] >= count:
            yield Condition(tool, f"count({quote(tool)}) >= {count}", "number of calls")
    for other in tools:
        if other != tool:
            if session.counts[other]:
                yield Condition(tool, f"called({quote(other)})", "A before B")
            if not session.successes[other]:
                yield Condition(tool, f"!succeeded({quote(other)})", "B without A")
    for name, value in islice(call.args.items(), MAX_FIELDS):
        if _NAME.fullmatch(name):
            yield from _propose_argument(tool, name, value, session)
    yield from _propose_states(tool, session)


def _propose_argument(tool: str, name: str, value: Any, session: SessionHistory) -> Iterator[Condition]:
    path = f"call.args.{name}"
    if (
        isinstance(value, bool)
        or (isinstance(value, str) and len(value) <= MAX_VALUE_CHARS)
        or isinstance(value, int | float)
    ):
        yield Condition(tool, f"{path} == {quote(value)}", "value of an argument")
    if isinstance(value, bool) or value is None:
        return
    yield Condition(tool, f"!seen({path})", "argument in no text or result")
    yield Condition(tool, f"!found({path})", "argument in no result")
    yield Condition(tool, f"{path} != last_args({quote(tool)}).{name}", "argument changed")
    for other, result in session.results.items():
        if not isinstance(result, dict):
            continue
        if type(result.get(name)) is type(value):
            yield Condition(tool, f"{path} != last_result({quote(other)}).{name}", "argument differs from a result")
        if isinstance(value, int | float):
            for field_name, reference_value in islice(result.items(), MAX_FIELDS):
                if (
                    isinstance(reference_value, int | float)
                    and not isinstance(reference_value, bool)
                    and _NAME.fullmatch(field_name)
                ):
                    reference = f"last_result({quote(other)}).{field_name}"
                    yield Condition(tool, f"{path} < {reference}", "argument below a result")
                    yield Condition(tool, f"{path} > {reference}", "argument above a result")


def _propose_states(tool: str, session: SessionHistory) -> Iterator[Condition]:
    for other, result in session.results.items():
        if not isinstance(result, dict):
            continue
        for name, value in islice(result.items(), MAX_FIELDS):
            if _NAME.fullmatch(name) and (isinstance(value, bool) or _is_word(value)):
                yield Condition(tool, f"last_result({quote(other)}).{name} == {quote(value)}", "field of a result")


def _is_word(value: Any) -> bool:
    # Values of enumerations; ids, names and dates have digits, capitals or spaces.
    return isinstance(value, str) and bool(re.fullmatch(r"[a-z]+(?:_[a-z]+)*", value)) and len(value) <= MAX_VALUE_CHARS
