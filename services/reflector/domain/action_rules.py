"""Finds failed tool calls with their repair, and calls that were repeated without a change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from libs.trajectories.actions import ToolUse
from libs.trajectories.excerpts import shorten_text
from services.reflector.domain.findings import TrajectoryFinding, select_steps
from services.reflector.domain.outcome import Outcome
from services.reflector.domain.repairs import FailureRecovery, find_repairs

REPEATS_OF_FAILURE = 2
"""The number of identical failed calls in a row that form a loop."""
REPEATS_OF_SUCCESS = 3
"""The number of identical successful calls in a row, with identical results, that form a loop."""
_COMPARED_CHARS = 2_000


def find_tool_errors(actions: Sequence[ToolUse], outcome: Outcome) -> Iterator[TrajectoryFinding]:
    """Yield one finding for each kind of error of each operation, with the repaired occurrence if there is one.

    An error after which the same call worked is transient, and no finding.
    """
    repairs = find_repairs(actions)
    positions_by_kind: dict[str, list[int]] = {}
    for position, action in enumerate(actions):
        if action.error is not None:
            positions_by_kind.setdefault(action.error_kind, []).append(position)
    for positions in positions_by_kind.values():
        example = next((position for position in positions if position in repairs), positions[0])
        repair = repairs.get(example)
        if repair is not None and not repair.changes and not repair.operations_between:
            continue
        steps = [actions[position].last_step for position in positions]
        if repair is not None:
            steps.append(repair.fixed.call_step)
        facts = _collect_facts(actions[example], repair, len(positions))
        yield TrajectoryFinding("tool_error", select_steps(steps), facts, repair, outcome.is_success, outcome.is_proven)


def find_repeated_calls(actions: Sequence[ToolUse], outcome: Outcome) -> Iterator[TrajectoryFinding]:
    """Yield one finding for each operation that was called repeatedly without another successful call in between."""
    reported: set[str] = set()
    for repeats in _group_repeats(actions):
        first = repeats[0]
        minimum = REPEATS_OF_FAILURE if first.error is not None else REPEATS_OF_SUCCESS
        if len(repeats) >= minimum and first.operation not in reported:
            reported.add(first.operation)
            facts = {
                "tool": first.operation,
                "agent": first.agent,
                "step": str(repeats[-1].call_step),
                "count": str(len(repeats)),
                "arguments": shorten_text(first.arguments),
                "message": first.message or shorten_text(first.output),
            }
            yield TrajectoryFinding(
                "repeated_call",
                select_steps(action.call_step for action in repeats),
                facts,
                is_success=outcome.is_success,
            )


def _group_repeats(actions: Sequence[ToolUse]) -> list[list[ToolUse]]:
    """Return the calls grouped by arguments and result; a different successful call ends all groups."""
    groups: list[list[ToolUse]] = []
    open_groups: dict[tuple[str, str, str], list[ToolUse]] = {}
    for action in actions:
        if action.result_step is None or not action.output.strip():
            continue
        key = (action.tool, action.arguments, action.output[:_COMPARED_CHARS])
        if key not in open_groups:
            if action.is_success:
                open_groups.clear()
            open_groups[key] = []
            groups.append(open_groups[key])
        open_groups[key].append(action)
    return groups


def _collect_facts(action: ToolUse, repair: FailureRecovery | None, count: int) -> dict[str, str]:
    return {
        "tool": action.operation,
        "agent": action.agent,
        "step": str(action.last_step),
        "message": action.message,
        "kind": action.error_kind.removeprefix(f"{action.operation}: "),
        "count": str(count),
        "arguments": shorten_text(action.arguments),
        "fixed_step": str(repair.fixed.last_step) if repair is not None else "",
    }
