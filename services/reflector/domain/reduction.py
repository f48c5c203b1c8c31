"""Reduces a long transcript to the size of a prompt by importance.

First, redundant text is removed: encoded data, and long texts that an earlier step has. Then importance
decides, highest first: failing calls with their results and repairs, and contradicting results; the question and the
last steps; messages and calls of agents; messages of people; results of successful calls; instructions. Of equally
important steps those near either end come first. A step is shown whole, with its beginning and end, or not at all, and
the prompt names the shortened and omitted steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
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
_LAST_STEPS = 3
_REPEATED_CHARS = 400
"""Texts that are longer are shown once."""
_ENCODED = re.compile(r"[A-Za-z0-9+/]{600,}={0,2}")


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript for a prompt, and the numbers of the shortened and of the omitted steps."""

    text: str
    shortened: tuple[int, ...] = ()
    omitted: tuple[int, ...] = ()


def reduce_transcript(
    trajectory: Trajectory,
    actions: Sequence[ToolUse],
    budget: int,
    format_step: Callable[[Step, Trajectory], str] | None = None,
) -> Transcript:
    """Return the transcript in about `budget` characters, unreduced if it fits. `format_step`: `format_line`."""
    steps = trajectory.transcript
    lines = [(format_step or format_line)(step, trajectory) for step in _strip_steps(steps, trajectory)]
    if sum(len(line) + 1 for line in lines) <= budget:
        return Transcript("\n".join(lines))
    importance = _rank_by_importance(steps, actions)
    longest = budget // _LONG_SHARE
    short = [shorten_middle(line, _SHORT_CHARS) if len(line) > 2 * _SHORT_CHARS else line for line in lines]
    shown: dict[int, str] = {}
    left = budget
    order = sorted(range(len(steps)), key=lambda index: (-importance[index], min(index, len(steps) - 1 - index), index))
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


def _strip_steps(steps: Sequence[Step], trajectory: Trajectory) -> list[Step]:
    """Return the steps without encoded data, and with a reference in place of a long text that was there before."""
    first_with: dict[str, int] = {}
    stripped: list[Step] = []
    for step in steps:
        content = _ENCODED.sub(lambda found: f"[{len(found.group())} encoded characters]", step.content)
        earlier = first_with.setdefault(content, step.index) if len(content) > _REPEATED_CHARS else step.index
        if earlier != step.index:
            content = f"[the same text as step {earlier + trajectory.first_step_number}]"
        stripped.append(step if content == step.content else step.model_copy(update={"content": content}))
    return stripped


def format_line(step: Step, trajectory: Trajectory) -> str:
    """Return a step as one line with its calls; reasoning steps follow R-25."""
    if not trajectory.steps:
        return f"{step.index + 1}. {step.content}"
    name = f" {step.name}" if step.name else ""
    return f"[{step.index}] {step.role}{name}: {step.content}{_format_calls(step)}"


def format_tagged_step(step: Step, trajectory: Trajectory) -> str:
    """Return a step between tags with its number, role and speaker."""
    speaker = "tool" if step.role == "tool" else "agent"
    name = f' {speaker}="{_escape(step.name)}"' if step.name else ""
    head = f'<step n="{step.index + trajectory.first_step_number}" role="{step.role}"{name}>'
    return f"{head}{_escape_tags(step.content + _format_calls(step))}</step>"


def _format_calls(step: Step) -> str:
    return "".join(f"\n  -> {call.name}({call.arguments})" for call in step.tool_calls)


def _escape(name: str) -> str:
    return name.replace('"', "'").replace("\n", " ")


def _escape_tags(text: str) -> str:
    """Return `text`, in which nothing looks like the tag of a step."""
    return text.replace("</step", "<\\/step").replace("<step", "<\\step")


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
