"""The observations of the rules: the kind, the steps that show it, and the facts for the lesson."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from services.reflector.domain.repairs import FailureRecovery

FindingKind = Literal[
    "tool_error",
    "repeated_call",
    "contradicted_result",
    "contradicted_claim",
    "unverified_answer",
    "refusal",
    "trajectory_error",
    "contrast",
]


MAX_STEPS_NAMED = 8


@dataclass(frozen=True, slots=True)
class TrajectoryFinding:
    """One observation; ``facts`` are short texts for the wording."""

    kind: FindingKind
    steps: tuple[int, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    repair: FailureRecovery | None = None
    is_success: bool = False
    """True if the trajectory succeeded nevertheless."""
    is_proven: bool = True
    """True if more than the trajectory's own status proves its outcome."""


def select_steps(steps: Iterable[int]) -> tuple[int, ...]:
    """Return the steps that a finding names: sorted, unique, and at most the first seven and the last."""
    unique = sorted(set(steps))
    return tuple(unique if len(unique) <= MAX_STEPS_NAMED else [*unique[: MAX_STEPS_NAMED - 1], unique[-1]])
