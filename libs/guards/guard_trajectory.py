"""Recorded trajectories of agents, as mining and backtests read them: messages and calls in order, with the outcome.

A file or an archive of trajectories supplies them as an iterable, so nothing here depends on where they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from chassis.targets.errors import EvaluationFailed, InvalidTarget
from chassis.targets.session import SessionHistory, ToolCallRequest
from chassis.targets.target import Target


@dataclass(frozen=True, slots=True)
class TrajectoryMessage:
    """A message of the user, of the instructions or of the agent at a step of a trajectory."""

    step: int
    role: Literal["user", "system", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class TrajectoryCall:
    """A tool call at a step of a trajectory, with its result; `error` is the error message, empty without an error."""

    step: int
    request: ToolCallRequest
    result: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class GuardTrajectory:
    """The record of one session with its outcome.

    `domain` groups trajectories that share tools and is a stratum of every test; `wrong_step` is the step of the first
    wrong write, if people know it.
    """

    id: str
    task_id: str
    is_success: bool
    events: tuple[TrajectoryMessage | TrajectoryCall, ...]
    domain: str = ""
    wrong_step: int | None = None
    content_hash: str = ""
    """The hash of the content of an archived trajectory."""

    @property
    def calls(self) -> Iterator[TrajectoryCall]:
        """Yield the calls in order."""
        return (event for event in self.events if isinstance(event, TrajectoryCall))


@dataclass(slots=True)
class Replay:
    """A trajectory that is replayed call by call: `session` holds the texts and calls before the current call."""

    trajectory: GuardTrajectory
    session: SessionHistory = field(default_factory=SessionHistory)

    def __iter__(self) -> Iterator[TrajectoryCall]:
        """Yield each call before its result is added to the session."""
        for event in self.trajectory.events:
            if isinstance(event, TrajectoryCall):
                yield event
                self.session.add_call(event.request, event.result, is_success=not event.error)
            elif event.role != "assistant":
                self.session.add_message(event.text, is_user=event.role == "user")


def compile_target(source: str) -> Target | None:
    """Return the target of a source; None if no guard can have it: it is too long, or has too large a number."""
    try:
        return Target(source)
    except InvalidTarget:
        return None


def matches(target: Target, call: TrajectoryCall, replay: Replay) -> bool:
    """Return whether a target matches a call of a replay; one that cannot be evaluated does not match."""
    try:
        return target.matches(call.request, replay.session)
    except EvaluationFailed:
        return False
