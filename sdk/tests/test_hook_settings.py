"""`hansei hooks install|status|uninstall`: only hansei's own entries of a settings file change."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansei.client.hooks.handlers import HookOptions, build_handlers, find_settings_file, get_base
from hansei.client.hooks.settings_file import BACKUP_SUFFIX, UnreadableSettings, install, list_own_handlers, uninstall
from tests.support.commands import CommandResult, runner

FOREIGN = {"hooks": [{"type": "command", "command": "my-hansei-like hook"}]}
MIXED = {"matcher": "Bash", "hooks": [{"type": "command", "command": "lint"}]}
AGENTS = ("claude", "codex", "cursor")
OPTIONS = HookOptions("coding")


def put(file: Path, settings: Any) -> Path:
    file.write_text(json.dumps(settings, indent=4, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("agent", AGENTS)
def test_removing_hooks_restores_the_former_settings(agent: str, tmp_path: Path) -> None:
    settings = {"model": "モデル", "hooks": {"PreToolUse": [MIXED], "Stop": [FOREIGN], "Empty": []}, "version": 1}
    file = put(tmp_path / "settings.json", settings)
    before = file.read_text(encoding="utf-8")
    change = install(file, build_handlers(agent, OPTIONS, "hansei"), get_base(agent))
    installed = json.loads(file.read_text(encoding="utf-8"))
    assert change.is_changed
    assert installed["hooks"]["PreToolUse"][0] == MIXED
    assert installed["hooks"]["Stop"][0] == FOREIGN
    assert (tmp_path / f"settings.json{BACKUP_SUFFIX}").read_text(encoding="utf-8") == before
    assert uninstall(file, get_base(agent)).is_changed
    assert file.read_text(encoding="utf-8") == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,  # of the draws of up to 100 leaves a third would be repeated
)
entries = st.lists(
    st.dictionaries(st.sampled_from(["matcher", "hooks", "command", "timeout"]), json_values), min_size=1
)
some_settings = st.fixed_dictionaries(
    {"other": json_values}, optional={"hooks": st.dictionaries(st.text(), entries, min_size=1)}
)


@given(settings=some_settings, agent=st.sampled_from(AGENTS))
def test_any_settings_survive_installing_and_removing(
    tmp_path_factory: pytest.TempPathFactory, settings: Any, agent: str
) -> None:
    file = put(tmp_path_factory.mktemp("settings") / "settings.json", settings)
    install(file, build_handlers(agent, OPTIONS, "hansei"), {})
    once = file.read_bytes()
    assert not install(file, build_handlers(agent, OPTIONS, "hansei"), {}).is_changed
    assert file.read_bytes() == once
    uninstall(file, {})
    assert json.loads(file.read_text(encoding="utf-8")) == settings


def test_hooks_are_added_to_a_blank_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text("\n", encoding="utf-8")
    assert install(file, build_handlers("claude", OPTIONS, "hansei"), {}).is_changed
    assert "UserPromptSubmit" in list_own_handlers(file)


def test_hooks_for_another_dataset_replace_the_former_hooks(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "settings.json"
    install(file, build_handlers("claude", OPTIONS, "hansei"), {})
    install(file, build_handlers("claude", HookOptions("shop", over_http=True), "'/a b/hansei'"), {})
    hooks = json.loads(file.read_text(encoding="utf-8"))["hooks"]
    assert {event: len(entries) for event, entries in hooks.items()} == dict.fromkeys(list_own_handlers(file), 1)
    (prompt,), (start,) = hooks["UserPromptSubmit"][0]["hooks"], hooks["SessionStart"][0]["hooks"]
    assert prompt["url"] == "http://127.0.0.1:8080/v1/hooks/claude-code?dataset=shop"
    assert start["command"] == "'/a b/hansei' hook claude --dataset shop"
    assert uninstall(file, {}).is_changed
    assert not file.exists()
    assert not uninstall(file, {}).is_changed


def test_the_backup_stays_the_file_without_hooks_of_hansei(tmp_path: Path) -> None:
    file = put(tmp_path / "settings.json", {"model": "mine"})
    backup, own = tmp_path / f"settings.json{BACKUP_SUFFIX}", file.read_bytes()
    assert install(file, build_handlers("claude", OPTIONS, "hansei"), {}).backup == backup
    for change in (
        install(file, build_handlers("claude", HookOptions("other"), "hansei"), {}),
        uninstall(file, {}),
    ):
        assert (change.is_changed, change.backup, backup.read_bytes()) == (True, None, own)
    put(file, {"model": "another"})
    own = file.read_bytes()
    install(file, build_handlers("claude", OPTIONS, "hansei"), {})
    assert backup.read_bytes() == own


def test_the_mode_of_the_file_and_a_link_to_it_stay(tmp_path: Path) -> None:
    target = put(tmp_path / "dotfiles.json", {"a": 1})
    target.chmod(0o600)
    link = tmp_path / "settings.json"
    link.symlink_to(target)
    install(link, build_handlers("codex", OPTIONS, "hansei"), {})
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert list_own_handlers(target)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"hooks": []}', "hooks must be an object"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop must be a list"),
    ],
)
def test_a_file_that_the_agent_could_not_read_is_left_alone(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(text)
    for change in (
        lambda: install(file, build_handlers("claude", OPTIONS, "hansei"), {}),
        lambda: uninstall(file, {}),
        lambda: list_own_handlers(file),
    ):
        with pytest.raises(UnreadableSettings, match=problem):
            change()
    assert file.read_text() == text
    assert list(tmp_path.iterdir()) == [file]


def test_each_agent_has_its_own_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(variable, raising=False)
    files = [str(find_settings_file(agent, is_user=True)) for agent in AGENTS]
    assert files == ["/home/me/.claude/settings.json", "/home/me/.codex/hooks.json", "/home/me/.cursor/hooks.json"]
    monkeypatch.setenv("CODEX_HOME", "/etc/codex")
    assert str(find_settings_file("codex", is_user=True)) == "/etc/codex/hooks.json"
    monkeypatch.chdir(tmp_path)
    assert find_settings_file("cursor", is_user=False) == tmp_path / ".cursor/hooks.json"


def test_cursor_gets_its_flat_form_with_a_version(tmp_path: Path) -> None:
    file = tmp_path / "hooks.json"
    install(file, build_handlers("cursor", HookOptions("coding", checks_calls=False), "hansei"), get_base("cursor"))
    entry = {"command": "hansei hook cursor --dataset coding", "timeout": 5}
    events = ("sessionStart", "beforeSubmitPrompt", "stop", "sessionEnd")
    assert json.loads(file.read_text()) == {"version": 1, "hooks": {event: [entry] for event in events}}


class TestCommand:
    @pytest.fixture
    def run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
        (tmp_path / "shop").mkdir()
        monkeypatch.chdir(tmp_path / "shop")
        return runner(capfd)

    def test_install_status_and_uninstall(self, run: Any, tmp_path: Path) -> None:
        installed: CommandResult = run("hooks", "install", "claude", "--project")
        file = tmp_path / "shop/.claude/settings.json"
        assert installed.code == 0
        assert installed.out == (
            "Claude Code calls hansei at SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PostToolUseFailure, "
            f"SessionEnd: {file}\n"
        )
        assert run("hooks", "install", "claude", "--project").out == f"The hooks were installed before: {file}\n"
        rows = {(row["agent"], row["scope"]): row for row in run("hooks", "status", "--json").document["hooks"]}
        assert rows["claude", "project"]["events"] == [
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "SessionEnd",
        ]
        assert rows["claude", "user"]["events"] == rows["cursor", "project"]["events"] == []
        assert "not installed" in run("hooks", "status").out
        assert run("hooks", "uninstall", "claude", "--project").out.startswith("Removed the hooks of Claude Code:")
        assert not file.exists()

    def test_the_hooks_keep_the_addresses_of_the_environment(
        self, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HANSEI_URL", "http://127.0.0.1:43080")
        monkeypatch.setenv("HANSEI_ADDR", "127.0.0.1:43050")
        assert run("hooks", "install", "codex", "--project").code == 0
        text = (tmp_path / "shop/.codex/hooks.json").read_text()
        assert "--url http://127.0.0.1:43080 --addr 127.0.0.1:43050" in text

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (["codex", "--http"], "Codex has no hooks of type http"),
            (["claude", "--dataset", "x; touch /tmp/y"], "the dataset 'x; touch /tmp/y' must match [A-Za-z0-9_-]+"),
            (["claude", "--http", "--url", "https://hansei.example"], "the gateway must be on this machine"),
        ],
    )
    def test_prompts_are_posted_unmasked_only_to_this_machine(
        self, run: Any, arguments: list[str], problem: str
    ) -> None:
        refused: CommandResult = run("hooks", "install", *arguments)
        assert refused.code == 2
        assert problem in refused.err

    def test_a_broken_file_is_named(self, run: Any, tmp_path: Path) -> None:
        file = tmp_path / "home/.codex/hooks.json"
        file.parent.mkdir(parents=True)
        file.write_text("{")
        assert (run("hooks", "install", "codex").code, file.read_text()) == (2, "{")
        assert f"{file} is not JSON" in run("hooks", "status").out
