"""The built-in prompt templates (R-28): Japanese, the default, and English."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

PromptLanguage = Literal["ja", "en"]


@dataclass(frozen=True, slots=True)
class ReflectorTexts:
    """The templates of one language, and the texts that go into them; `texts_<language>.yaml` holds them."""

    insights: str
    bullet: str
    no_bullets: str
    log: str
    shortened: str
    omitted: str
    cut: str
    unknown_steps: str


def _load(language: PromptLanguage) -> ReflectorTexts:
    file = Path(__file__).with_name(f"texts_{language}.yaml")
    return ReflectorTexts(**yaml.safe_load(file.read_text(encoding="utf-8")))


PROMPT_TEXTS: Mapping[PromptLanguage, ReflectorTexts] = {"ja": _load("ja"), "en": _load("en")}
