"""Fits a long transcript into a prompt: what matters most stays whole, and what is left out is said.

Importance, highest first: failing calls with their results and what repaired them, and results that contradict each
other; the question and the last words; what agents decided and called; what people said; results of calls that worked;
instructions. Nothing is cut blindly: a step is shown whole, with its beginning and end, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.reflector.domain.actions import Action
from services.reflector.domain.contradictions import contradiction_findings
from services.reflector.domain.excerpts import ends
from services.reflector.domain.repairs import repairs_of
from services.reflector.domain.trajectory import Step, Trajectory

_SHORT_CHARS = 160
"""Characters at each end of a step that is not shown whole."""
_LONG_SHARE = 8
"""No step takes more than this part (one eighth) of the budget."""
_LAST_STEPS = 2


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript as a prompt shows it, and the numbers of the steps that are shortened or not there at all."""

    text: str
    shorten: tuple[int, ...] = ()
    omitted: tuple[int, ...] = ()


def reduced(trajectory: Trajectory, actions: Sequence[Action], budget: int) -> Transcript:
    """The transcript in at most about `budget` characters; whole if it fits. Numbers are those of the prompt."""
    steps = trajectory.transcript
    lines = [_line(step, trajectory) for step in steps]
    if sum(len(line) + 1 for line in lines) <= budget:
        return Transcript("\n".join(lines))
    importance = _importance(steps, actions)
    longest = budget // _LONG_SHARE
    short = [ends(line, _SHORT_CHARS) if len(line) > 2 * _SHORT_CHARS else line for line in lines]
    shown: dict[int, str] = {}
    left = budget
    order = sorted(range(len(steps)), key=lambda place: (-importance[place], place))
    for place in order:
        if len(short[place]) + 1 <= left:
            shown[place] = short[place]
            left -= len(short[place]) + 1
    for place in order:
        whole = ends(lines[place], longest // 2)
        if place in shown and len(whole) - len(shown[place]) <= left:
            left -= len(whole) - len(shown[place])
            shown[place] = whole
    first = trajectory.first_step_number
    return Transcript(
        "\n".join(shown[place] for place in sorted(shown)),
        shorten=tuple(place + first for place in sorted(shown) if len(shown[place]) < len(lines[place])),
        omitted=tuple(place + first for place in range(len(steps)) if place not in shown),
    )


def _line(step: Step, trajectory: Trajectory) -> str:
    """A step as a prompt shows it; reasoning steps as R-25 says."""
    if not trajectory.steps:
        return f"{step.index + 1}. {step.content}"
    name = f" {step.name}" if step.name else ""
    calls = "".join(f"\n  -> {call.name}({call.arguments})" for call in step.tool_calls)
    return f"[{step.index}] {step.role}{name}: {step.content}{calls}"


def _importance(steps: Sequence[Step], actions: Sequence[Action]) -> list[int]:
    role: Mapping[str, int] = {"assistant": 3, "user": 2, "tool": 1, "system": 0}
    importance = [role[step.role] for step in steps]
    repairs = repairs_of(actions)
    for place, action in enumerate(actions):
        if action.error is not None:
            importance[action.call_step] = importance[action.last_step] = 5
        if place in repairs:
            importance[repairs[place].fixed.call_step] = importance[repairs[place].fixed.last_step] = 5
    for finding in contradiction_findings(actions):
        for place in finding.steps:
            importance[place] = 5
    asked = next((place for place, step in enumerate(steps) if step.role == "user"), None)
    for place in (asked, *range(max(0, len(steps) - _LAST_STEPS), len(steps))):
        if place is not None:
            importance[place] = max(importance[place], 4)
    return importance


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short: `1, 4-6`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
