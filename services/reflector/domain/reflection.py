"""The result of reflecting on a trajectory: lessons, votes and the step that went wrong (R-03 to R-05)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Tag = Literal["helpful", "harmful", "neutral"]

Kind = Literal["mistake", "strategy", "tool_fact"]
"""Something that went wrong, a way of working that caused a success, or a property of a tool."""

Signal = Literal["self_report", "ground_truth", "test_report", "reward"]
"""The signal that proves the outcome of a trajectory, weakest first. Only the agent's own report is unreliable."""


class UsedBullet(BaseModel):
    """A bullet of the playbook, which the trajectory may have used (R-08)."""

    model_config = ConfigDict(frozen=True)

    id: str
    section: str
    content: str
    helpful: int = 0
    harmful: int = 0


class Insight(BaseModel):
    """A lesson (R-03), the indices of the ``steps`` that support it, and the ``section`` it fits.

    ``confirms`` and ``contradicts`` are ids of bullets. ``target`` is the condition of a tool call that repeats the
    mistake, in CEL; empty without one.
    """

    model_config = ConfigDict(frozen=True)

    reasoning: str
    error_identification: str
    root_cause_analysis: str
    correct_approach: str
    key_insight: str
    steps: tuple[int, ...] = ()
    section: str = ""
    kind: Kind | None = None
    confirms: str = ""
    contradicts: str = ""
    target: str = ""


class BulletEvaluation(BaseModel):
    """One vote on a used bullet (R-04)."""

    model_config = ConfigDict(frozen=True)

    bullet_id: str
    tag: Tag
    reason: str


class BlameCandidate(BaseModel):
    """A step and an agent at which a failed trajectory may have gone wrong, and the reason.

    ``agent`` may be the user or a tool. ``probability`` is an estimate, 0 if unknown.
    """

    model_config = ConfigDict(frozen=True)

    step: int = Field(ge=0)
    agent: str
    reason: str
    probability: float = Field(default=0, ge=0, le=1)


class Attribution(BlameCandidate):
    """The most probable candidate, and the next ones, most probable first."""

    alternatives: tuple[BlameCandidate, ...] = ()


class ObservedCall(BaseModel):
    """A tool call as evidence: the error is empty if it worked; ``repaired_by`` is the position of a later call.

    ``tool`` is the tool whose command the operation is; empty if the operation is the tool.
    """

    model_config = ConfigDict(frozen=True)

    operation: str
    arguments: str
    error: str
    repaired_by: int | None
    step: int
    tool: str = ""


class ReflectionResult(BaseModel):
    """The outcome of one reflection (R-05), with the model that reflected (``offline`` for rules).

    ``error`` says why the model's reflection is missing or incomplete.
    """

    model_config = ConfigDict(frozen=True)

    insights: tuple[Insight, ...]
    bullet_evaluations: tuple[BulletEvaluation, ...]
    trajectory_query: str
    trajectory_dataset: str
    iteration_count: int = 1
    trajectory_id: str = ""
    attribution: Attribution | None = None
    is_success: bool = False
    signal: Signal = "self_report"
    model: str = ""
    used_bullet_ids: tuple[str, ...] = ()
    calls: tuple[ObservedCall, ...] = ()
    task_id: str = ""
    error: str = ""
