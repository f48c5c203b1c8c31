"""The built-in prompts of the reflector by language (R-28); `texts.toml` holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from libs.prompts.language import Language, load_texts
from services.reflector.domain.reflection import Signal


@dataclass(frozen=True, slots=True)
class ReflectorTexts:
    """The templates of one language, and the texts that go into them."""

    system: str
    closing: str
    refine: str
    outcome: str
    success: str
    failure: str
    error_message: str
    no_siblings: str
    sibling: str
    sibling_from_start: str
    no_tools: str
    tool: str
    notes: str
    sources: Mapping[Signal, str]
    bullet: str
    no_bullets: str
    log: str
    shortened: str
    omitted: str
    cut: str
    unknown_steps: str
    languages: Mapping[Language, str]


PROMPT_TEXTS = load_texts(Path(__file__).with_suffix(".toml"), ReflectorTexts)
