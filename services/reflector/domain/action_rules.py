"""Offline rules over tool calls: calls that failed, with their repair, and calls repeated without a change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from services.reflector.domain.actions import Action
from services.reflector.domain.excerpts import excerpt
from services.reflector.domain.findings import Finding, named
from services.reflector.domain.outcome import Outcome
from services.reflector.domain.repairs import Repair, repairs_of

REPEATS_OF_FAILURE = 2
"""Identical calls in a row that are a loop if they failed."""
REPEATS_OF_SUCCESS = 3
"""Identical calls with identical results that are a loop although they worked."""
_COMPARED_CHARS = 2_000


def error_findings(actions: Sequence[Action], outcome: Outcome) -> Iterator[Finding]:
    """One finding for each kind of error of each operation, told with the repaired occurrence if there is one."""
    repairs = repairs_of(actions)
    by_kind: dict[str, list[int]] = {}
    for position, action in enumerate(actions):
        if action.error is not None:
            by_kind.setdefault(action.error_kind, []).append(position)
    for positions in by_kind.values():
        told = next((position for position in positions if position in repairs), positions[0])
        repair = repairs.get(told)
        steps = [actions[position].last_step for position in positions]
        if repair is not None:
            steps.append(repair.fixed.call_step)
        facts = _facts(actions[told], repair, len(positions))
        yield Finding("tool_error", named(steps), facts, repair, outcome.succeeded, outcome.proven)


def repeat_findings(actions: Sequence[Action], outcome: Outcome) -> Iterator[Finding]:
    """One finding for each operation that was asked for again and again, with nothing else done in between."""
    told: set[str] = set()
    for row in _rows(actions):
        first = row[0]
        needed = REPEATS_OF_FAILURE if first.error is not None else REPEATS_OF_SUCCESS
        if len(row) >= needed and first.operation not in told:
            told.add(first.operation)
            facts = {
                "tool": first.operation,
                "agent": first.agent,
                "step": str(row[-1].call_step),
                "count": str(len(row)),
                "arguments": excerpt(first.arguments),
                "message": first.message or excerpt(first.output),
            }
            yield Finding(
                "repeated_call", named(action.call_step for action in row), facts, succeeded=outcome.succeeded
            )


def _rows(actions: Sequence[Action]) -> list[list[Action]]:
    """Calls with the same arguments and the same result, grouped until another call succeeded."""
    rows: list[list[Action]] = []
    present: dict[tuple[str, str, str], list[Action]] = {}
    for action in actions:
        if action.result_step is None or not action.output.strip():
            continue
        key = (action.tool, action.arguments, action.output[:_COMPARED_CHARS])
        if key not in present:
            if action.succeeded:
                present.clear()
            present[key] = []
            rows.append(present[key])
        present[key].append(action)
    return rows


def _facts(action: Action, repair: Repair | None, count: int) -> dict[str, str]:
    return {
        "tool": action.operation,
        "agent": action.agent,
        "step": str(action.last_step),
        "message": action.message,
        "kind": action.error_kind.removeprefix(f"{action.operation}: "),
        "count": str(count),
        "arguments": excerpt(action.arguments),
        "fixed_step": str(repair.fixed.last_step) if repair is not None else "",
    }
