"""The texts of the prompts for targets of guards by language; `prompts.toml` holds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from libs.prompts.language import load_texts


@dataclass(frozen=True, slots=True)
class GuardTexts:
    """The texts of one language."""

    vocabulary: str
    failures: str
    language: str
    outcome: str
    call: str
    result: str
    error: str
    cut: str


GUARD_TEXTS = load_texts(Path(__file__).with_suffix(".toml"), GuardTexts)
