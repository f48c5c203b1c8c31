"""Settings of the prompt builder (spec section 6): templates from code, environment, `.env` and TOML."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator

from chassis.logging import get_logger
from chassis.settings import BadSetting, Settings, SettingsFile, read_settings
from libs.prompts.defaults import BUILT_IN_TEMPLATES, BuiltInTemplates
from libs.prompts.language import LanguageSetting

TABLE = "prompt_builder"
CONFIG_FILE = Path("configs", "prompt_builder.toml")

_log = get_logger(__name__)


def _get_built_in_templates(language: LanguageSetting) -> BuiltInTemplates:
    """Return the templates that settings show; the prompts of `auto` follow the query all the same (B-34)."""
    return BUILT_IN_TEMPLATES["ja" if language == "auto" else language]


class PromptBuilderSettings(Settings):
    """The templates; constructor over environment over `.env` over TOML over built-in, field by field (B-36)."""

    empty_is_unset: ClassVar[bool] = False
    dotenv: ClassVar[str] = ".env"

    language: LanguageSetting = "auto"
    """Language of built-in templates and of labels: `ja`, `en`, or `auto` for the language of the query."""

    team_user_prompt: str = Field(
        default_factory=lambda data: _get_built_in_templates(data["language"]).team_user_prompt
    )
    """Template of the prompt that asks a team for a submission."""

    evaluator_user_prompt: str = Field(
        default_factory=lambda data: _get_built_in_templates(data["language"]).evaluator_user_prompt
    )
    """Template of the prompt that asks an evaluator for a score."""

    judgment_user_prompt: str = Field(
        default_factory=lambda data: _get_built_in_templates(data["language"]).judgment_user_prompt
    )
    """Template of the prompt that asks a judge whether another round is worthwhile."""

    @field_validator("team_user_prompt", "evaluator_user_prompt", "judgment_user_prompt")
    @classmethod
    def _refuse_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("prompt template cannot be empty")
        return value


def get_prompt_builder_settings(
    path: str | Path | None = None, workspace: str | Path | None = None
) -> PromptBuilderSettings:
    """Return the settings with a TOML file: the given one, else the workspace's if it is there (B-39).

    Raises FileNotFoundError for a given file that is missing, BadSetting for a file that cannot be read as settings.
    """
    file = _find_config_file(path, workspace)
    if file is None:
        _log.warning("no prompt file in the workspace; using the built-in templates", file=str(CONFIG_FILE))
    return read_settings(PromptBuilderSettings, SettingsFile.load(file, TABLE, ".toml") if file else None)


def load_prompt_builder_settings(workspace: str) -> PromptBuilderSettings:
    """Return the settings with the file of a workspace if one is named. Raises BadSetting."""
    try:
        return get_prompt_builder_settings(workspace=workspace) if workspace else read_settings(PromptBuilderSettings)
    except BadSetting as error:
        raise BadSetting(f"the prompt templates cannot be used: {error}") from error


def _find_config_file(path: str | Path | None, workspace: str | Path | None) -> Path | None:
    if path is not None and Path(path).is_absolute():
        file = Path(path)
    elif workspace is None:
        raise ValueError("workspace must be specified")
    else:
        file = Path(workspace, path or CONFIG_FILE)
    if file.is_file():
        return file
    if path is None:
        return None
    raise FileNotFoundError(f"PromptBuilder config file not found: {file}")
