"""The built-in prompts of the planner and the generator by language; `texts.toml` holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from libs.prompts.language import load_texts


@dataclass(frozen=True, slots=True)
class PlannerPrompts:
    """The prompts of one language, templates of `libs.prompts.templates.fill`."""

    planning: str
    first_collection: str
    no_collections: str
    more_collections: str
    query: str
    hints: str
    example_query: str
    example_texts: tuple[str, str, str, str, str, str, str]
    complexity: str
    current_plan: str
    feedback: str
    failed_step: str
    questioned_step: str
    error: str
    user_feedback: str
    new_information: str
    broader: str
    finished: str
    rest_only: str
    no_repetition: str
    reasoning: str
    step_input: str
    nothing: str
    step_judge: str
    agent: str
    agent_question: str
    observation: str
    agent_only: str
    generator: str
    plain: str
    empty_knowledge: str
    tools: Mapping[str, str]
    """Descriptions of the built-in tools and their inputs, by action."""


PROMPTS = load_texts(Path(__file__).with_suffix(".toml"), PlannerPrompts)
