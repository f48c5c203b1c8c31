"""Deltas, their outcome, and the report of a curation (C-07 to C-11, C-24, C-36)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, StrictInt

from services.curator.domain.playbook import Bullet, BulletTarget, Source

DeltaType = Literal["ADD", "UPDATE", "DELETE"]
VoteTag = Literal["helpful", "harmful", "neutral"]

SELF_REPORT = "self_report"
"""The signal of a trajectory whose outcome only the agent itself reports."""
TRUSTED_SIGNALS = frozenset({"reward", "test_report", "ground_truth"})
"""The signals of trajectories whose outcome a reward, a test or a known answer determined."""
OFFLINE_MODEL = "offline"
"""The model name of curations and reflections by rules."""


class DeltaContextItem(BaseModel):
    """One edit of a playbook as a curator proposes it (C-07)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: DeltaType
    section: str
    bullet_id: str | None = None
    content: str
    reasoning: str


class CurationResult(BaseModel):
    """The deltas of one curation and the number of bullets before and after it (C-08, C-09)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    deltas: list[DeltaContextItem]
    bullets_before: StrictInt
    bullets_after: StrictInt
    summary: str


def summarize_deltas(deltas: Iterable[DeltaContextItem]) -> str:
    """Return ``ADD: <a>, UPDATE: <u>, DELETE: <d>`` over all proposed deltas (C-36)."""
    types = [delta.type for delta in deltas]
    return f"ADD: {types.count('ADD')}, UPDATE: {types.count('UPDATE')}, DELETE: {types.count('DELETE')}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A delta with the trajectories and steps that support it. Sources never come from a model's text.

    A delta with a `decline_reason` is reported and not applied. One with a `wait_reason` waits for review, whatever the
    policy of the dataset is. `confirmed_id` is the bullet that already contains the lesson of an ADD: unless that
    bullet changed meanwhile, it gets the sources and nothing is added. `settles` is the id of a pending change with the
    lesson of an ADD, which no longer waits once this proposal is applied. An ADD or UPDATE sets the `target` of its
    bullet; one with an empty expression removes it.
    """

    delta: DeltaContextItem
    sources: tuple[Source, ...] = ()
    decline_reason: str = ""
    wait_reason: str = ""
    confirmed_id: str = ""
    settles: str = ""
    target: BulletTarget | None = None


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote of one trajectory on one bullet; unique per bullet, trajectory and round (0 is the first)."""

    bullet_id: str
    tag: VoteTag
    trajectory: str
    round: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The reflector's judgement of one served bullet (R-04)."""

    bullet_id: str
    tag: VoteTag
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson of a reflection (R-03), with the indexes of the steps that support it.

    `confirms` and `contradicts` are ids of bullets. `target` is the condition of a tool call that repeats the mistake,
    empty without one.
    """

    reasoning: str
    error_identification: str
    root_cause_analysis: str
    correct_approach: str
    key_insight: str
    steps: tuple[int, ...] = ()
    section: str = ""
    kind: str = ""
    confirms: str = ""
    contradicts: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceCall:
    """A tool call of a trajectory: the error is empty if it worked; `repaired_by` is the position of a later call.

    `tool` is the tool whose command the operation is; empty if the operation is the tool.
    """

    operation: str
    arguments: str = ""
    error: str = ""
    repaired_by: int | None = None
    step: int = 0
    tool: str = ""


@dataclass(frozen=True, slots=True)
class SectionDefinition:
    """A section of a dataset and the description of its bullets (C-27)."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Reflection:
    """The reflector's findings in one trajectory.

    `signal` is the evidence for the outcome of the trajectory: `reward`, `test_report`, `ground_truth`, `self_report`,
    or empty if unknown. `model` is the reflecting model, `offline` for rules. `served` are the ids of the bullets that
    were served to the trajectory and are not learned from it again. `calls` are its tool calls in order.
    """

    insights: tuple[Lesson, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    trajectory_id: str = ""
    query: str = ""
    signal: str = ""
    model: str = ""
    served: frozenset[str] = frozenset()
    calls: tuple[EvidenceCall, ...] = ()
    task_id: str = ""
    is_success: bool = False

    @property
    def is_reliable(self) -> bool:
        """Return True unless only the agent itself reports the outcome of the trajectory."""
        return self.signal != SELF_REPORT

    @property
    def has_trusted_signal(self) -> bool:
        """Return True if a reward, a test or a known answer determined the outcome of the trajectory."""
        return self.signal in TRUSTED_SIGNALS

    @property
    def is_from_rules(self) -> bool:
        """Return True if deterministic rules found the lessons, not a model."""
        return self.model == OFFLINE_MODEL


@dataclass(frozen=True, slots=True)
class Conflict:
    """An UPDATE or DELETE that was not applied because its bullet changed in a revision after `base_revision`."""

    base_revision: int
    changed_in: int
    present: Bullet | None

    @property
    def explanation(self) -> str:
        """Return a sentence about the newer change."""
        change = "removed" if self.present is None else "changed"
        return f"revision {self.changed_in} {change} the bullet; the delta is based on revision {self.base_revision}"


@dataclass(frozen=True, slots=True)
class Operation:
    """A delta and its outcome.

    `bullet_id` is the bullet that it added, changed or removed. A delta that was not applied has a `skipped_reason`;
    one that waits for review has a `wait_reason`, and `pending_id` is its pending change.
    """

    proposal: Proposal
    applied: bool
    bullet_id: str = ""
    skipped_reason: str = ""
    conflict: Conflict | None = None
    wait_reason: str = ""
    pending_id: str = ""

    @property
    def delta(self) -> DeltaContextItem:
        """Return the delta of the proposal."""
        return self.proposal.delta


@dataclass(frozen=True, slots=True)
class VoteOutcome:
    """A vote and its outcome; a vote that was not counted has a `skipped_reason`."""

    vote: Vote
    applied: bool
    skipped_reason: str = ""
