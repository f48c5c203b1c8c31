"""The built-in prompt templates (spec section 5); `defaults.toml` holds their text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from libs.prompts.language import load_texts


@dataclass(frozen=True, slots=True)
class BuiltInTemplates:
    """The templates of one language."""

    team_user_prompt: str
    evaluator_user_prompt: str
    judgment_user_prompt: str


BUILT_IN_TEMPLATES = load_texts(Path(__file__).with_suffix(".toml"), BuiltInTemplates)
DEFAULT_TEAM_USER_PROMPT = BUILT_IN_TEMPLATES["ja"].team_user_prompt
DEFAULT_EVALUATOR_USER_PROMPT = BUILT_IN_TEMPLATES["ja"].evaluator_user_prompt
DEFAULT_JUDGMENT_USER_PROMPT = BUILT_IN_TEMPLATES["ja"].judgment_user_prompt
