"""Reduces a long transcript to the size of a prompt by importance.

Importance, highest first: failing calls with their results and repairs, and contradicting results; the question and the
last messages; messages and calls of agents; messages of people; results of successful calls; instructions. A step is
shown whole, with its beginning and end, or not at all, and the prompt names the shortened and omitted steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from libs.trajectories.actions import ToolUse
from libs.trajectories.excerpts import shorten_middle
from services.reflector.domain.contradictions import find_contradictions
from services.reflector.domain.repairs import find_repairs
from services.reflector.domain.trajectory import Step, Trajectory

_SHORT_CHARS = 160
"""Characters at each end of a shortened step."""
_LONG_SHARE = 8
"""The budget divided by this is the longest that one step may be."""
_LAST_STEPS = 2


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript for a prompt, and the numbers of the shortened and of the omitted steps."""

    text: str
    shortened: tuple[int, ...] = ()
    omitted: tuple[int, ...] = ()


def reduce_transcript(trajectory: Trajectory, actions: Sequence[ToolUse], budget: int) -> Transcript:
    """Return the transcript in about `budget` characters, unreduced if it fits."""
    steps = trajectory.transcript
    lines = [_format_line(step, trajectory) for step in steps]
    if sum(len(line) + 1 for line in lines) <= budget:
        return Transcript("\n".join(lines))
    importance = _rank_by_importance(steps, actions)
    longest = budget // _LONG_SHARE
    short = [shorten_middle(line, _SHORT_CHARS) if len(line) > 2 * _SHORT_CHARS else line for line in lines]
    shown: dict[int, str] = {}
    left = budget
    order = sorted(range(len(steps)), key=lambda index: (-importance[index], index))
    for index in order:
        if len(short[index]) + 1 <= left:
            shown[index] = short[index]
            left -= len(short[index]) + 1
    for index in order:
        whole = shorten_middle(lines[index], longest // 2)
        if index in shown and len(whole) - len(shown[index]) <= left:
            left -= len(whole) - len(shown[index])
            shown[index] = whole
    first = trajectory.first_step_number
    return Transcript(
        "\n".join(shown[index] for index in sorted(shown)),
        shortened=tuple(index + first for index in sorted(shown) if len(shown[index]) < len(lines[index])),
        omitted=tuple(index + first for index in range(len(steps)) if index not in shown),
    )


def _format_line(step: Step, trajectory: Trajectory) -> str:
    """Return a step as text for a prompt; reasoning steps follow R-25."""
    if not trajectory.steps:
        return f"{step.index + 1}. {step.content}"
    name = f" {step.name}" if step.name else ""
    calls = "".join(f"\n  -> {call.name}({call.arguments})" for call in step.tool_calls)
    return f"[{step.index}] {step.role}{name}: {step.content}{calls}"


def _rank_by_importance(steps: Sequence[Step], actions: Sequence[ToolUse]) -> list[int]:
    role: Mapping[str, int] = {"assistant": 3, "user": 2, "tool": 1, "system": 0}
    importance = [role[step.role] for step in steps]
    repairs = find_repairs(actions)
    failing = [action for action in actions if action.error is not None]
    for action in (*failing, *(repair.fixed for repair in repairs.values())):
        importance[action.call_step] = importance[action.last_step] = 5
    for finding in find_contradictions(actions):
        for index in finding.steps:
            importance[index] = 5
    questions = [index for index, step in enumerate(steps) if step.role == "user"]
    for index in (*questions[:1], *range(max(0, len(steps) - _LAST_STEPS), len(steps))):
        importance[index] = max(importance[index], 4)
    return importance


def format_ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers in short form: `1, 4-6`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
