"""The sources of templates, and the files that `hansei config init` writes."""

from __future__ import annotations

import logging
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from chassis.settings import VARIABLES
from libs.prompts.config_init import ConfigInitError, init_config
from libs.prompts.defaults import (
    BUILT_IN_TEMPLATES,
    DEFAULT_EVALUATOR_USER_PROMPT,
    DEFAULT_JUDGMENT_USER_PROMPT,
    DEFAULT_TEAM_USER_PROMPT,
)
from libs.prompts.settings import PromptBuilderSettings, get_prompt_builder_settings

FIELDS = ("team_user_prompt", "evaluator_user_prompt", "judgment_user_prompt")


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for field in (*FIELDS, "language"):
        for variable in VARIABLES["PromptBuilderSettings"]:
            monkeypatch.delenv(variable.format(field.upper()), raising=False)
    return tmp_path


def write_toml(workspace: Path, text: str) -> None:
    (workspace / "configs").mkdir()
    (workspace / "configs" / "prompt_builder.toml").write_text(text, encoding="utf-8")


def test_the_default_templates_are_complete() -> None:  # B-34, B-35
    settings = PromptBuilderSettings()
    assert settings.team_user_prompt == DEFAULT_TEAM_USER_PROMPT
    assert settings.evaluator_user_prompt == DEFAULT_EVALUATOR_USER_PROMPT
    assert settings.judgment_user_prompt == DEFAULT_JUDGMENT_USER_PROMPT
    assert all(template.endswith("}}\n") for template in vars(settings).values() if template != "auto")


def test_the_english_default_templates_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSEI_LANGUAGE", "en")
    settings = PromptBuilderSettings()
    assert settings.team_user_prompt == BUILT_IN_TEMPLATES["en"].team_user_prompt
    monkeypatch.setenv("HANSEI_LANGUAGE", "xx")
    with pytest.raises(ValidationError):
        PromptBuilderSettings()


@pytest.mark.parametrize("field", FIELDS)
def test_each_template_has_its_own_precedence(  # B-36, B-37, B-38, B-51
    field: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def current() -> str:
        value: str = getattr(get_prompt_builder_settings(workspace=workspace), field)
        return value

    write_toml(workspace, f'{field} = "outside"\n[prompt_builder]\n{field} = "toml"\n')
    assert current() == "toml"
    (workspace / ".env").write_text(f"MIXSEEK_PROMPT_BUILDER__{field.upper()}=dotenv\n", encoding="utf-8")
    assert current() == "dotenv"
    monkeypatch.setenv(f"MIXSEEK_PROMPT_BUILDER__{field.upper()}", "nested")
    assert current() == "nested"
    monkeypatch.setenv(f"MIXSEEK_{field.upper()}", "plain")
    assert current() == "plain"
    monkeypatch.setenv(f"HANSEI_{field.upper()}", "hansei")
    assert current() == "hansei"
    constructed = PromptBuilderSettings(**{field: "constructor"})  # type: ignore[arg-type]
    assert getattr(constructed, field) == "constructor"
    others = [name for name in FIELDS if name != field]
    settings = get_prompt_builder_settings(workspace=workspace)
    assert all(getattr(settings, name) == getattr(BUILT_IN_TEMPLATES["ja"], name) for name in others)


@pytest.mark.parametrize("value", ["", " \n"])
def test_blank_templates_are_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:  # B-35
    with pytest.raises(ValidationError, match="prompt template cannot be empty"):
        PromptBuilderSettings(team_user_prompt=value)
    monkeypatch.setenv("MIXSEEK_TEAM_USER_PROMPT", value)
    with pytest.raises(ValidationError, match="prompt template cannot be empty"):
        PromptBuilderSettings()


def test_keys_outside_the_table_are_ignored(workspace: Path) -> None:  # B-38
    write_toml(workspace, 'team_user_prompt = "x"\n[other]\nteam_user_prompt = "y"\n')
    assert get_prompt_builder_settings(workspace=workspace) == PromptBuilderSettings()


def test_a_given_file_must_exist(workspace: Path) -> None:  # B-39
    with pytest.raises(FileNotFoundError) as raised:
        get_prompt_builder_settings("my.toml", workspace)
    assert str(raised.value) == f"PromptBuilder config file not found: {workspace / 'my.toml'}"
    (workspace / "my.toml").write_text('[prompt_builder]\nteam_user_prompt = "mine"\n', encoding="utf-8")
    assert get_prompt_builder_settings("my.toml", workspace).team_user_prompt == "mine"
    assert get_prompt_builder_settings(workspace / "my.toml").team_user_prompt == "mine"
    assert PromptBuilderSettings().team_user_prompt == DEFAULT_TEAM_USER_PROMPT


def test_without_a_file_the_defaults_are_used_and_said_so(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:  # B-39
    with caplog.at_level(logging.WARNING):
        assert get_prompt_builder_settings(workspace=workspace) == PromptBuilderSettings()
    assert len(caplog.records) == 1


def test_a_missing_workspace_is_refused() -> None:  # B-39
    with pytest.raises(ValueError, match=r"^workspace must be specified$"):
        get_prompt_builder_settings()


@pytest.mark.parametrize("text", ["nonsense", "prompt_builder = 5", "[prompt_builder]\nteam_user_prompt = 5\n"])
def test_a_file_that_is_no_settings_is_refused(text: str, workspace: Path) -> None:
    write_toml(workspace, text)
    with pytest.raises(ValueError, match=r"prompt_builder|team_user_prompt"):
        get_prompt_builder_settings(workspace=workspace)


def test_init_writes_files_that_load_as_the_defaults(workspace: Path) -> None:  # B-41, B-42, B-47
    written = init_config(workspace=workspace, environ={})
    assert written == [workspace / "configs" / "config.toml", workspace / "configs" / "prompt_builder.toml"]
    assert get_prompt_builder_settings(workspace=workspace) == PromptBuilderSettings()
    text = written[1].read_text(encoding="utf-8")
    table = tomllib.loads(text)["prompt_builder"]
    assert table == {field: getattr(BUILT_IN_TEMPLATES["ja"], field) for field in FIELDS}
    for field in FIELDS:
        variables = (
            "user_query, submission, current_datetime"
            if field == "evaluator_user_prompt"
            else "user_prompt, round_number, submission_history, ranking_table, team_position_message, current_datetime"
        )
        assert f'# 利用可能なプレースホルダー変数: {variables}\n{field} = """\n' in text
    tomllib.loads(written[0].read_text(encoding="utf-8"))


def test_init_of_one_component_and_of_the_environments_workspace(workspace: Path) -> None:  # B-40, B-41
    written = init_config("prompt_builder", environ={"HANSEI_WORKSPACE": str(workspace)})
    assert written == [workspace / "configs" / "prompt_builder.toml"]
    assert not (workspace / "configs" / "config.toml").exists()


def test_init_overwrites_only_when_forced(workspace: Path) -> None:  # B-43
    (workspace / "configs").mkdir()
    existing = workspace / "configs" / "prompt_builder.toml"
    existing.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigInitError) as raised:
        init_config(workspace=workspace, environ={})
    assert str(raised.value) == f"Error: {existing} already exists. Use --force to overwrite."
    assert existing.read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in existing.parent.iterdir()) == ["prompt_builder.toml"]
    init_config(workspace=workspace, force=True, environ={})
    assert existing.read_text(encoding="utf-8") != "mine"


def test_init_refuses_a_missing_workspace_and_an_unknown_component() -> None:  # B-44, B-45
    with pytest.raises(ConfigInitError) as raised:
        init_config(environ={})
    assert str(raised.value) == "Error: Workspace path must be specified via --workspace or HANSEI_WORKSPACE env var."
    with pytest.raises(ConfigInitError) as raised:
        init_config("x", environ={})
    assert str(raised.value) == "Unknown component: 'x'. Valid components: config, prompt_builder"


def test_an_output_path_needs_a_component(workspace: Path) -> None:  # B-46
    with pytest.raises(ConfigInitError, match="--output-path needs --component"):
        init_config(output_path="x.toml", environ={})
    target = workspace / "deep" / "x.toml"
    assert init_config("prompt_builder", target, environ={}) == [target]
    assert target.exists()
