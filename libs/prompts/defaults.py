"""The built-in prompt templates (spec section 5); `defaults.toml` holds their text."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from libs.prompts.labels import Language


@dataclass(frozen=True, slots=True)
class BuiltInTemplates:
    """The templates of one language."""

    team_user_prompt: str
    evaluator_user_prompt: str
    judgment_user_prompt: str


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
BUILT_IN_TEMPLATES: Mapping[Language, BuiltInTemplates] = {
    "ja": BuiltInTemplates(**_TEXTS["ja"]),
    "en": BuiltInTemplates(**_TEXTS["en"]),
}
DEFAULT_TEAM_USER_PROMPT = BUILT_IN_TEMPLATES["ja"].team_user_prompt
DEFAULT_EVALUATOR_USER_PROMPT = BUILT_IN_TEMPLATES["ja"].evaluator_user_prompt
DEFAULT_JUDGMENT_USER_PROMPT = BUILT_IN_TEMPLATES["ja"].judgment_user_prompt
