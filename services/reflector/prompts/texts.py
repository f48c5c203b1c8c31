"""The built-in prompts of the reflector by language (R-28); `texts.toml` holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from libs.prompts.language import Language, load_texts


@dataclass(frozen=True, slots=True)
class ReflectorTexts:
    """The templates of one language, and the texts that go into them."""

    insights: str
    bullet: str
    no_bullets: str
    log: str
    shortened: str
    omitted: str
    cut: str
    unknown_steps: str
    languages: Mapping[Language, str]


PROMPT_TEXTS = load_texts(Path(__file__).with_suffix(".toml"), ReflectorTexts)
