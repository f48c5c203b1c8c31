"""The fixed lines of prompts; `texts.toml` holds them by language."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from libs.prompts.labels import Language


@dataclass(frozen=True, slots=True)
class ReportPromptTexts:
    """The lines of prompts for reports in one language; the builders fill the `{…}` parts."""

    task: str
    shape: str
    rules: str
    nodes: str
    no_nodes: str
    known_ids: str
    inputs: str
    correction: str
    more_errors: str
    available_ids: str
    previous_answer: str
    repair: tuple[str, str, str]
    parts: str


@dataclass(frozen=True, slots=True)
class RuleTexts:
    """The description of each sort of rule in one language."""

    required: str
    reference: str
    known_ids: str
    at_least: str
    between: str
    forbidden: str
    expression: str
    whole: str


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PROMPT_TEXTS = TypeAdapter(Mapping[Language, ReportPromptTexts]).validate_python(_TEXTS["run"])
RULE_TEXTS = TypeAdapter(Mapping[Language, RuleTexts]).validate_python(_TEXTS["rules"])
