"""Settings of the gateway, and the objects that are built from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chassis.settings import BadSetting
from gateway.bootstrap import create_prompts
from gateway.settings import GatewaySettings
from libs.prompts.contexts import RoundPromptContext

ROUND = RoundPromptContext(
    user_prompt="Q {{ x }}", round_number=1, round_history=[], team_id="t", team_name="T", execution_id="e"
)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HANSEI_HTTP_ADDRESS", "GATEWAY_API_TOKEN", "HANSEI_GATEWAY_API_TOKEN", "HANSEI_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("variable", "address"), [(None, "127.0.0.1:8080"), ("127.0.0.1:0", "127.0.0.1:0"), ("", "")])
def test_http_has_a_default_and_can_be_turned_off(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, address: str
) -> None:
    if variable is not None:
        monkeypatch.setenv("HANSEI_HTTP_ADDRESS", variable)
    assert GatewaySettings().http_address == address
    assert GatewaySettings(http_address="h:1").http_address == "h:1"


def test_the_token_has_the_name_of_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_API_TOKEN", "s3cret")
    settings = GatewaySettings()
    assert settings.gateway_api_token.get_secret_value() == "s3cret"  # G-30
    assert "s3cret" not in repr(settings)


async def test_prompts_come_from_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    file = tmp_path / "configs" / "prompt_builder.toml"
    file.write_text('[prompt_builder]\nteam_user_prompt = "mine: {{ user_prompt }}"\n', encoding="utf-8")
    prompts = create_prompts(GatewaySettings(workspace=str(tmp_path)))
    assert await prompts.build_team_prompt(ROUND) == "mine: Q {{ x }}"  # B-38, B-51, G-67


@pytest.mark.parametrize(
    ("language", "heading"), [("ja", "# ユーザクエリ"), ("en", "# User query"), ("", "# User query")]
)
async def test_without_a_workspace_prompts_are_built_in(
    monkeypatch: pytest.MonkeyPatch, language: str, heading: str
) -> None:
    monkeypatch.delenv("HANSEI_LANGUAGE", raising=False)
    if language:
        monkeypatch.setenv("HANSEI_LANGUAGE", language)
    assert f"{heading}\nQ {{{{ x }}}}" in await create_prompts(GatewaySettings()).build_team_prompt(ROUND)


@pytest.mark.parametrize("content", ["[prompt_builder", '[prompt_builder]\nteam_user_prompt = " "\n'])
def test_prompts_that_cannot_be_used_are_named_at_the_start(tmp_path: Path, content: str) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "prompt_builder.toml").write_text(content, encoding="utf-8")
    with pytest.raises(BadSetting, match="the prompt templates cannot be used"):  # G-10
        create_prompts(GatewaySettings(workspace=str(tmp_path)))
