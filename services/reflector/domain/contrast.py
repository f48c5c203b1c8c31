"""Compares a failed trajectory with a successful one of the same task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libs.trajectories.actions import ToolUse, build_call_signature
from libs.trajectories.excerpts import shorten_text
from services.reflector.domain.findings import TrajectoryFinding, select_steps
from services.reflector.domain.repairs import ArgumentChange, compare_arguments

_MAX_CHANGES = 3
_QUERY_CHARS = 160


@dataclass(frozen=True, slots=True)
class Divergence:
    """The calls that differ, of the failed and of the successful trajectory; None where one made no such call."""

    failed: ToolUse | None
    worked: ToolUse | None


def find_contrast(
    query: str, failed: Sequence[ToolUse], worked: Sequence[ToolUse], *, reflects_failed: bool
) -> TrajectoryFinding | None:
    """Return the difference that explains the success, None if both did the same.

    The finding names a step of the reflected trajectory, which is the failed one if `reflects_failed`.
    """
    divergence = _find_divergence(_select_successful(failed), _select_successful(worked))
    if divergence is None:
        return None
    own, reflected = (divergence.failed, failed) if reflects_failed else (divergence.worked, worked)
    action = own or (reflected[-1] if reflected else None)
    facts = {
        "query": shorten_text(query, _QUERY_CHARS),
        "worked_tool": divergence.worked.operation if divergence.worked else "",
        "worked_arguments": shorten_text(divergence.worked.arguments, 200) if divergence.worked else "",
        "failed_tool": divergence.failed.operation if divergence.failed else "",
        "failed_arguments": shorten_text(divergence.failed.arguments, 200) if divergence.failed else "",
        "changes": ", ".join(f"`{change.argument}`" for change in _find_changes(divergence) if change.argument),
    }
    return TrajectoryFinding("contrast", select_steps([action.call_step] if action else []), facts)


def _select_successful(actions: Sequence[ToolUse]) -> list[ToolUse]:
    return [action for action in actions if action.is_success]


def _find_divergence(failed: Sequence[ToolUse], worked: Sequence[ToolUse]) -> Divergence | None:
    """Return the first call that only the successful trajectory made, with the failed one's first for its operation.

    If the successful trajectory has no call of its own, return the first call that only the failed trajectory made.
    """
    in_failed = {build_call_signature(action) for action in failed}
    in_worked = {build_call_signature(action) for action in worked}
    own = next((action for action in worked if build_call_signature(action) not in in_failed), None)
    others = [action for action in failed if build_call_signature(action) not in in_worked]
    if own is None:
        return Divergence(others[0], None) if others else None
    return Divergence(next((action for action in others if action.operation == own.operation), None), own)


def _find_changes(divergence: Divergence) -> tuple[ArgumentChange, ...]:
    if (
        divergence.failed is None
        or divergence.worked is None
        or divergence.failed.operation != divergence.worked.operation
    ):
        return ()
    return compare_arguments(divergence.failed.arguments, divergence.worked.arguments)[:_MAX_CHANGES]
