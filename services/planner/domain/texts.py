"""The texts of the planner for people, and the words by which it understands them; `texts.toml` holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from libs.prompts.language import load_texts


@dataclass(frozen=True, slots=True)
class PlannerTexts:
    """The texts of one language; their users fill the `{…}` parts."""

    search_description: str
    search_output: str
    answer_description: str
    answer_output: str
    success_criteria: str
    confirm_plan: str
    confirm_options: tuple[str, str, str]
    step_confidence: str
    notice: str
    ask_information: str
    ask_continue: str
    in_doubt: str
    in_doubt_question: str
    held_message: str
    held_question: str
    refused: str
    advice: str
    advised_first: str
    lesson: str
    user_input: str
    information: str
    crash: str
    replan_failed: str
    alternative: str
    missing_dependency: str
    backward_dependency: str
    repeated_step: str
    unknown_action: str
    unknown_collection: str
    none_near: str
    step_count: str
    extract: str
    replan_words: tuple[str, ...]
    restart_words: tuple[str, ...]
    refusals: tuple[str, ...]
    replan_reasons: Mapping[str, str]


TEXTS = load_texts(Path(__file__).with_suffix(".toml"), PlannerTexts)


def contains_words(text: str, kind: str) -> bool:
    """Return True if a text contains words of a kind, a field of `PlannerTexts`, in any language."""
    return any(word in text.lower() for texts in TEXTS.values() for word in getattr(texts, kind))
