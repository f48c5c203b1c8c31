"""System instructions of evaluators and judges; `instructions.toml` holds them by language."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from libs.prompts.labels import Language


@dataclass(frozen=True, slots=True)
class JudgeInstructions:
    """System instructions of the two judges in one language."""

    prospects: str
    comparison: str


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
METRIC_INSTRUCTIONS = TypeAdapter(Mapping[Language, Mapping[str, str]]).validate_python(_TEXTS["metrics"])
"""The rubric of each built-in metric, by language and name."""
JUDGE_INSTRUCTIONS = TypeAdapter(Mapping[Language, JudgeInstructions]).validate_python(_TEXTS["judges"])
