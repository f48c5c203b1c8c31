"""The contents of trajectory files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from services.reflector.domain.trajectory import Trajectory

Format = Literal[
    "hansei",
    "openai",
    "tau_bench",
    "who_and_when",
    "anthropic",
    "langchain",
    "swe_agent",
    "atif",
    "otel",
    "claude_code",
    "codex",
    "openai_responses",
    "pydantic_ai",
    "state_bench",
    "cursor",
    "agents_sdk",
    "langsmith",
    "langfuse",
    "smolagents",
    "tau2_bench",
]


@dataclass(frozen=True, slots=True)
class RecordedTrajectory:
    """A trajectory with the outcome data of its file; a text is empty if the file has none.

    ``domain`` names the group of tasks that share their tools.
    """

    trajectory: Trajectory
    ground_truth: str = ""
    test_report: str = ""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class TrajectoryFile:
    """The trajectories of a file, in order, and the format of the file."""

    format: Format
    trajectories: tuple[RecordedTrajectory, ...]


@dataclass(frozen=True, slots=True)
class LabelledTrajectory:
    """A failed trajectory with the step and the agent that people blame. No reflector sees these labels.

    ``failures`` are all steps that people called wrong, with `step`.
    """

    trajectory: Trajectory
    step: int
    agent: str
    failures: frozenset[int] = frozenset()
