"""System instructions of evaluators and judges; `instructions.toml` holds them by language."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from libs.prompts.language import load_texts


@dataclass(frozen=True, slots=True)
class JudgeInstructions:
    """System instructions of the two judges in one language."""

    prospects: str
    comparison: str


_FILE = Path(__file__).with_suffix(".toml")
METRIC_INSTRUCTIONS = load_texts(_FILE, dict[str, str], "metrics")
"""The rubric of each built-in metric, by language and name."""
JUDGE_INSTRUCTIONS = load_texts(_FILE, JudgeInstructions, "judges")
