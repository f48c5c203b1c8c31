"""Summarize the steps of a trajectory: agents, tools, and the errors of tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from libs.trajectories.actions import extract_actions
from services.evidence.domain.archive import ToolErrorSignature

MAX_ERRORS = 20
MAX_TOOLS = 100
MAX_AGENTS = 50
MAX_OPERATION_CHARS = 120


class StoredCall(NamedTuple):
    """A tool call of a step."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step, as `extract_actions` reads it."""

    index: int
    role: str
    name: str
    content: str
    tool_calls: Sequence[StoredCall] = ()
    tool_call_id: str = ""

    @property
    def speaker(self) -> str:
        """Return the agent or tool that speaks, or else the role."""
        return self.name or self.role


class StepFacts(NamedTuple):
    """Facts that the steps of a trajectory show."""

    agents: tuple[str, ...]
    tools: tuple[str, ...]
    errors: tuple[ToolErrorSignature, ...]


def summarize_steps(steps: Sequence[StoredStep]) -> StepFacts:
    """Return agents, tools and the first errors, each once and in order."""
    actions = extract_actions(steps)
    errors: dict[str, ToolErrorSignature] = {}
    for action in actions:
        if action.error is None or action.result_step is None or len(errors) == MAX_ERRORS:
            continue
        signature = ToolErrorSignature(action.operation[:MAX_OPERATION_CHARS], action.error.kind, action.result_step)
        errors.setdefault(signature.text, signature)
    agents = _take_first((step.name for step in steps if step.role == "assistant"), MAX_AGENTS)
    return StepFacts(agents, _take_first((action.tool for action in actions), MAX_TOOLS), tuple(errors.values()))


def _take_first(names: Iterable[str], limit: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))[:limit]
