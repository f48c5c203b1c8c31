"""What reflecting on a trajectory yields: lessons, votes and the step that went wrong (R-03 to R-05)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Tag = Literal["helpful", "harmful", "neutral"]

Signal = Literal["self_report", "ground_truth", "test_report", "reward"]
"""What the outcome of a run rests on, weakest first. The agent's own word is the only one that cannot be relied on."""


class Bullet(BaseModel):
    """A lesson of the playbook as the caller supplies it (R-08)."""

    model_config = ConfigDict(frozen=True)

    id: str
    section: str
    content: str


class Insight(BaseModel):
    """A lesson (R-03), the indices of the ``steps`` it rests on, and the ``section`` it would fit."""

    model_config = ConfigDict(frozen=True)

    reasoning: str
    error_identification: str
    root_cause_analysis: str
    correct_approach: str
    key_insight: str
    steps: tuple[int, ...] = ()
    section: str = ""


class BulletEvaluation(BaseModel):
    """One vote on a used bullet (R-04)."""

    model_config = ConfigDict(frozen=True)

    bullet_id: str
    tag: Tag
    reason: str


class Attribution(BaseModel):
    """The step and the agent at which a failed run went wrong, and what speaks for it."""

    model_config = ConfigDict(frozen=True)

    step: int = Field(ge=0)
    agent: str
    reason: str


class ReflectionResult(BaseModel):
    """The outcome of one reflection (R-05), what it knows of the run, and who reflected (``offline`` for rules)."""

    model_config = ConfigDict(frozen=True)

    insights: tuple[Insight, ...]
    bullet_evaluations: tuple[BulletEvaluation, ...]
    trajectory_query: str
    trajectory_dataset: str
    iteration_count: int = 1
    trajectory_id: str = ""
    attribution: Attribution | None = None
    succeeded: bool = False
    signal: Signal = "self_report"
    model: str = ""
    used_bullet_ids: tuple[str, ...] = ()
