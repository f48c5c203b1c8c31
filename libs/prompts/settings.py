"""Settings of the prompt builder (spec section 6): templates from code, environment, `.env` and TOML."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import Field, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from chassis.logging import get_logger
from libs.prompts.defaults import BUILT_IN_TEMPLATES
from libs.prompts.labels import Language

TABLE = "prompt_builder"
CONFIG_FILE = Path("configs", "prompt_builder.toml")
PREFIXES = ("HANSEI_", "MIXSEEK_", "MIXSEEK_PROMPT_BUILDER__")
"""Of the variables of a field, in upper case; the first one that is set wins."""

_log = get_logger(__name__)
_table: ContextVar[Mapping[str, Any] | None] = ContextVar("prompt_builder_table", default=None)


class PromptBuilderSettings(BaseSettings):
    """The templates; constructor over environment over `.env` over TOML over built-in, field by field (B-36)."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", validate_default=True)

    language: Language = "ja"
    """Language of built-in templates and of labels, `ja` or `en`."""

    team_user_prompt: str = Field(default_factory=lambda data: BUILT_IN_TEMPLATES[data["language"]].team_user_prompt)
    """Template of the prompt that asks a team for a submission."""

    evaluator_user_prompt: str = Field(
        default_factory=lambda data: BUILT_IN_TEMPLATES[data["language"]].evaluator_user_prompt
    )
    """Template of the prompt that asks an evaluator for a score."""

    judgment_user_prompt: str = Field(
        default_factory=lambda data: BUILT_IN_TEMPLATES[data["language"]].judgment_user_prompt
    )
    """Template of the prompt that asks a judge whether another round is worthwhile."""

    @field_validator("team_user_prompt", "evaluator_user_prompt", "judgment_user_prompt")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("prompt template cannot be empty")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Constructor, environment, `.env`, TOML, the first one that has a field wins."""
        return (
            init_settings,
            _Values(settings_cls, _of_variables(settings_cls, os.environ)),
            _Values(settings_cls, _of_variables(settings_cls, dotenv_values(".env"))),
            _Values(settings_cls, _table.get() or {}),
        )


class _Values(PydanticBaseSettingsSource):
    """Values by field name."""

    def __init__(self, settings_cls: type[BaseSettings], values: Mapping[str, Any]) -> None:
        super().__init__(settings_cls)
        self._values = values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return {name: self._values[name] for name in self.settings_cls.model_fields if name in self._values}


def _of_variables(settings_cls: type[BaseSettings], variables: Mapping[str, str | None]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in settings_cls.model_fields:
        named = [variables[prefix + name.upper()] for prefix in PREFIXES if prefix + name.upper() in variables]
        if named:
            values[name] = named[0]
    return values


def get_prompt_builder_settings(
    path: str | Path | None = None, workspace: str | Path | None = None
) -> PromptBuilderSettings:
    """The settings with a TOML file: the given one, else the workspace's if it is there (B-39).

    Raises FileNotFoundError for a given file that is missing, ValueError for a file that cannot be read as settings.
    """
    file = _config_file(path, workspace)
    if file is None:
        _log.warning("no prompt file in the workspace; using the built-in templates", file=str(CONFIG_FILE))
        return PromptBuilderSettings()
    token = _table.set(_table_of(file))
    try:
        return PromptBuilderSettings()
    finally:
        _table.reset(token)


def _config_file(path: str | Path | None, workspace: str | Path | None) -> Path | None:
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


def _table_of(file: Path) -> Mapping[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get(TABLE, {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not a TOML file: {error}") from error
    if not isinstance(table, dict):
        raise ValueError(f"{file}: [{TABLE}] must be a table")
    return table
