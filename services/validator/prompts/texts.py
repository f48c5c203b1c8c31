"""The fixed lines of prompts; `texts.toml` holds them by language."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from libs.prompts.language import load_texts


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


_FILE = Path(__file__).with_suffix(".toml")
PROMPT_TEXTS = load_texts(_FILE, ReportPromptTexts, "run")
RULE_TEXTS = load_texts(_FILE, RuleTexts, "rules")
