"""Test the `hansei` command without a server: help, exit codes, configuration files, `up`, `demo` and `--local`."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansei.client import Client, client, entry
from hansei.client.cli import root_command
from hansei.client.cli.embedded_stack import build_temp_settings
from hansei.client.cli.options import EXIT_CODES, Exit
from tests.fakes.openai_answers import chat_json, error
from tests.fakes.openai_server import OpenAIServer
from tests.support import systems
from tests.support.commands import EXAMPLES, Hansei, copy_trajectories, runner

ROOT = Path(__file__).parents[3]
HANSEI = [sys.executable, "-m", "tests.support.forked_command"]
PATHS = os.pathsep.join(str(ROOT / part) for part in ("", "stubs", "sdk"))
WRITE_THEIR_OWN_STDOUT = {"up", "open", "mcp", "a2a", "hook", "hooks install", "hooks uninstall"}


def environment(**own: str) -> dict[str, str]:
    """Return the environment of a user who has set no variable of hansei but the one that keeps data in this folder."""
    ours = ("HANSEI_", "OPENAI_", "LLM_", "EMBEDDING_", "PLAYBOOK_", "SEARCH_", "PLANNER_", "LEADERBOARD_")
    others = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**others, "PYTHONPATH": PATHS, "HANSEI_DATA_DIR": "data", **own}


def commands(group: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name."""
    root: Any = root_command() if group is None else group
    for name, command in root.commands.items():
        full = f"{prefix} {name}".strip()
        if hasattr(command, "commands"):
            yield from commands(command, full)
        else:
            yield full, command


@pytest.fixture
def hansei(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Hansei:
    monkeypatch.delenv("HANSEI_WORKSPACE", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return runner(capfd)


def test_help_lists_every_command_and_every_exit_code(hansei: Hansei) -> None:
    outcome = hansei("--help")
    assert outcome.code == 0
    assert all(name.split()[0] in outcome.out for name, _ in commands())
    text = " ".join(outcome.out.split())
    assert all(f"{code.value} {meaning}" in text for code, meaning in EXIT_CODES.items())


def test_help_needs_nothing_that_is_slow_to_load() -> None:
    slow = (
        "asyncio",
        "grpc",
        "rich",
        "pydantic",
        "google.protobuf",
        "opentelemetry",
        "sqlalchemy",
        "numpy",
        "allinone",
        "services",
    )
    check = (
        "import sys; from hansei.client.cli import main\n"
        "try: main(['--help'])\n"
        f"finally: print([name for name in {slow!r} if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", check], env=environment(), capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "expected", "code"),
    [
        (["search", "query", "--dataset", "d", "--top-k", "3"], False, 3),
        (["playbook", "export", "--format", "text", "--revision", "3", "--glob", "*.py"], False, 2),
        (["search", "query", "--top-k", "0"], True, 2),
        (["search", "query", "--top-k", "x"], True, 2),
        (["playbook", "export", "--format", "xml"], True, 2),
    ],
)
def test_a_command_loads_a_validator_only_for_a_value_that_needs_one(
    arguments: list[str], expected: bool, code: int
) -> None:
    check = (
        "import sys; from hansei.client.cli import main\n"
        f"try: main([*{arguments!r}, '--addr', '127.0.0.1:1'])\n"
        "finally: print('pydantic' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", check], env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.stdout.strip(), ran.returncode) == (str(expected), code), ran.stderr


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_command_has_help_and_json(name: str) -> None:
    command = dict(commands())[name]
    options = {option for parameter in command.params for option in parameter.opts}
    assert command.help
    assert ("--json" in options) == (name not in WRITE_THEIR_OWN_STDOUT)


def test_completion_is_offered(hansei: Hansei) -> None:
    assert "--install-completion" in hansei("--help").out


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["search"], ["search", "x", "--top-k", "0"], ["learn", "x", "--no"]]
)
def test_wrong_usage_ends_with_2(hansei: Hansei, arguments: list[str]) -> None:
    outcome = hansei(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        "learn ''",
        "playbook import '' --dataset d",
        "playbook export '' --dataset d",
        "trajectories export --output '' --dataset d",
        "plan refine '' feedback",
        "report advisor ''",
        "judge @",
    ],
)
def test_an_empty_path_is_refused(hansei: Hansei, arguments: str) -> None:
    outcome = hansei(*shlex.split(arguments), "--addr", "127.0.0.1:1")
    assert (outcome.code, outcome.out) == (2, "")
    assert "is empty: the path must name a file or a folder" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    ["demo --trajectories ''", "doctor --bundle ''", "doctor --bundle b --log ''", "config init --workspace ''"],
)
def test_an_empty_path_is_not_the_current_directory(
    hansei: Hansei, arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = hansei(*shlex.split(arguments))
    assert (outcome.code, outcome.out, list(tmp_path.iterdir())) == (2, "", [])
    assert "the path is empty; name a file or a folder" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("plan refine . feedback", "Error: . is a directory; name a file\n"),
        ("search x --min-confidence 7", "--min-confidence"),
        ("search x --min-confidence -0.1", "--min-confidence"),
        ("search x --alpha 2", "--alpha"),
        ("plan run /absent.json", "/absent.json is not a file"),
        ("plan run ./absent", "./absent is not a file"),
        ("plan run x --dataset a --collection b", "--collection names a, b"),
        ("plan create x --dataset a --collection b", "--collection names a, b"),
        ("keys create key --scope read --days 1e12", "--days"),
        ("learn pyproject.toml --no-wait", "--no-wait goes with --bulk"),
        ("search x --local --addr 127.0.0.1:1", "--addr and --local cannot be combined"),
        ("mcp --addr 127.0.0.1:1 --local", "--addr and --local cannot be combined"),
    ],
)
def test_values_out_of_range_and_contradictions_are_refused(
    hansei: Hansei, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.setenv("HANSEI_ADDR", "127.0.0.1:1")
    outcome = hansei(*arguments.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("plan run {file}", "{file} is nested deeper than 200 levels"),
        ("validate {file} --type organizer --dashboard {file}", "{file} is not a dashboard"),
    ],
)
def test_json_that_is_nested_too_deeply_is_refused(
    hansei: Hansei, tmp_path: Path, arguments: str, problem: str
) -> None:
    file = tmp_path / "deep.json"
    file.write_text(100_000 * "[" + 100_000 * "]", encoding="utf-8")
    outcome = hansei(*arguments.format(file=file).split())
    assert outcome.code == 2
    assert problem.format(file=file) in outcome.err


class TestConfigInit:
    def test_config_init_writes_both_files(self, hansei: Hansei, tmp_path: Path) -> None:  # B-40, B-41, B-42
        outcome = hansei("config", "init", "--workspace", tmp_path, "--json")
        files = [tmp_path / "configs/config.toml", tmp_path / "configs/prompt_builder.toml"]
        assert outcome.code == 0
        assert outcome.document == {"written": [str(file) for file in files]}
        table = tomllib.loads(files[1].read_text(encoding="utf-8"))["prompt_builder"]
        assert set(table) == {"team_user_prompt", "evaluator_user_prompt", "judgment_user_prompt"}

    def test_config_init_takes_the_workspace_from_the_environment(  # B-40, B-41
        self, hansei: Hansei, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HANSEI_WORKSPACE", str(tmp_path))
        assert hansei("config", "init", "-c", "prompt_builder").code == 0
        assert [file.name for file in (tmp_path / "configs").iterdir()] == ["prompt_builder.toml"]

    def test_config_init_overwrites_only_with_force(self, hansei: Hansei, tmp_path: Path) -> None:  # B-43
        there = tmp_path / "configs/prompt_builder.toml"
        there.parent.mkdir()
        there.write_text("mine", encoding="utf-8")
        outcome = hansei("config", "init", "--workspace", tmp_path)
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.err == f"Error: {there} already exists. Use --force to overwrite.\n"
        assert [file.name for file in there.parent.iterdir()] == [there.name]
        assert there.read_text(encoding="utf-8") == "mine"
        assert hansei("config", "init", "--workspace", tmp_path, "-f").code == 0
        assert there.read_text(encoding="utf-8") != "mine"

    def test_config_init_needs_a_workspace(self, hansei: Hansei) -> None:  # B-44
        outcome = hansei("config", "init")
        assert outcome.code == 1
        text = "Error: Workspace path must be specified via --workspace or HANSEI_WORKSPACE env var.\n"
        assert outcome.err == text

    def test_config_init_refuses_an_unknown_component(self, hansei: Hansei, tmp_path: Path) -> None:  # B-45
        outcome = hansei("config", "init", "-c", "x", "--workspace", tmp_path)
        assert outcome.code == 1
        assert outcome.err == "Unknown component: 'x'. Valid components: config, prompt_builder\n"
        assert not list(tmp_path.iterdir())

    def test_config_init_writes_one_component_to_a_given_path(self, hansei: Hansei, tmp_path: Path) -> None:  # B-46
        assert hansei("config", "init", "-c", "config", "-o", tmp_path / "here.toml").code == 0
        assert hansei("config", "init", "-o", tmp_path / "there.toml").code == 1
        assert [file.name for file in tmp_path.iterdir()] == ["here.toml"]


def test_demo_of_other_trajectories_asks_nothing_about_datasets_that_it_did_not_learn(tmp_path: Path) -> None:
    copy_trajectories(tmp_path, "mine", "git-push-forced", "git-push-rebased")
    command = [*HANSEI, "demo", "--trajectories", str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "2 trajectories in " in ran.stdout
    assert "Search" not in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) < 500


def test_demo_shows_the_loop_and_leaves_nothing_behind(tmp_path: Path) -> None:
    ran = subprocess.run([*HANSEI, "demo", "--json"], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    chapters = [json.loads(line) for line in ran.stdout.splitlines()]
    names = [chapter["chapter"] for chapter in chapters]
    assert names == ["learned"] * 19 + ["searched"] * 2 + ["answered", "used_again"]
    learned, searched, answered, again = (
        [chapter for chapter in chapters if chapter["chapter"] == name]
        for name in ("learned", "searched", "answered", "used_again")
    )
    assert not any(chapter["failure"] for chapter in learned)
    assert any(chapter["response"]["reflection"]["insights"] for chapter in learned)
    assert {chapter["dataset"] for chapter in learned} == {"devtools", "orders-api"}
    for chapter in searched:
        scores = [result["combined_score"] for result in chapter["response"]["results"]]
        assert scores
        assert scores == sorted(scores, reverse=True)
        assert all({"vector_score", "bm25_score"} <= set(result) for result in chapter["response"]["results"])
    assert answered[0]["response"]["model"] == "offline"
    before, after = again[0]["bullet_before"], again[0]["bullet_after"]
    assert before["id"] == after["id"]
    assert int(after["helpful"]) == int(before["helpful"]) + 1
    assert list(tmp_path.iterdir()) == []


def start_up(folder: Path, *arguments: str, **variables: str) -> tuple[subprocess.Popen[str], list[str]]:
    """Start `hansei up` on free ports; return the process and the lines that it wrote until it was up."""
    process = subprocess.Popen(
        [*HANSEI, "up", "--listen", "127.0.0.1:0", *arguments],
        cwd=folder,
        env=environment(HANSEI_HTTP_ADDRESS="127.0.0.1:0", **variables),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = [process.stderr.readline()]
    while lines[-1] and "ctrl-c" not in lines[-1]:
        lines.append(process.stderr.readline())
    return process, lines


def test_up_shows_addresses_data_and_models_warns_of_nothing_and_drains_on_ctrl_c(tmp_path: Path) -> None:
    process, lines = start_up(tmp_path, "--data-dir", str(tmp_path / "books"))
    try:
        assert lines[0].startswith("hansei is up at 127.0.0.1:"), lines
        banner = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[1:]}
        with Client(banner["grpc"]) as running:
            assert list(running.playbooks.list_datasets().datasets) == []
        with urllib.request.urlopen(banner["console"]) as response:
            assert response.status == 200
        assert banner["console"] == f"{banner['http']}/console/"
        assert banner["data"] == str(tmp_path / "books")
        assert banner["model"].startswith("offline")
        assert banner["embedder"] == "minilm: bundled, for English"
        for example in banner["try"].split(" · "):
            assert example.endswith(f" --addr {banner['grpc']}")
        command = [*HANSEI, "learn", str(EXAMPLES), "--addr", banner["grpc"]]
        for _ in range(2):
            ran = subprocess.run(
                command,
                cwd=tmp_path,
                env=environment(HANSEI_DATA_DIR=str(tmp_path / "books")),
                capture_output=True,
                text=True,
            )
            assert ran.returncode == 0, ran.stderr
        process.send_signal(signal.SIGINT)
        # Not `communicate`, which ignores the lines that `readline` has buffered.
        assert process.stderr is not None
        # A client of another test may still knock at a port that was its server's.
        written = process.stderr.read().splitlines()
        assert [line for line in written if "Invalid HTTP request received" not in line] == []
        assert process.wait(systems.STOP_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()
    assert [path.name for path in tmp_path.iterdir()] == ["books"], "all data is in the directory that was named"


def test_an_interrupt_before_the_command_begins_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hansei.client.cli.main", interrupt)
    monkeypatch.setattr(sys, "argv", ["hansei", "status"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == Exit.INTERRUPTED


def test_a_second_signal_ends_up_without_a_traceback(tmp_path: Path) -> None:
    process, _ = start_up(tmp_path)
    try:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        rest = process.stderr.read()
        assert process.wait(systems.STOP_SECONDS) == 1
    finally:
        process.kill()
        process.communicate()
    assert "stopped before the drain ended" in rest
    assert "Traceback" not in rest


def test_commands_share_the_data_directory_of_the_platform_and_a_read_creates_nothing(tmp_path: Path) -> None:
    share = tmp_path / "share"
    folders = [tmp_path / "one", tmp_path / "other"]

    def run(folder: Path, *arguments: object, code: int = 0) -> Any:
        folder.mkdir(exist_ok=True)
        ran = subprocess.run(
            [*HANSEI, *map(str, arguments), "--local", "--json"],
            cwd=folder,
            env=environment(HANSEI_DATA_DIR="", XDG_DATA_HOME=str(share), HOME=str(tmp_path)),
            capture_output=True,
            text=True,
        )
        assert ran.returncode == code, ran.stderr
        return json.loads(ran.stdout) if ran.stdout else None

    run(folders[0], "search", "a push was rejected", "-d", "shared", code=4)
    assert not share.exists()
    (file,) = copy_trajectories(tmp_path, "shared", "git-push-rebased")
    run(folders[0], "learn", file)
    assert run(folders[1], "search", "a push was rejected", "-d", "shared")["results"]
    assert [list(folder.iterdir()) for folder in folders] == [[], []]
    assert (share / "hansei/playbooks/playbooks.db").is_file()


def test_the_wheel_contains_the_demo(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, capture_output=True
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    check = "from hansei.client.cli import loop; print(loop.BUNDLED_TRAJECTORIES)"
    alone = {**environment(), "PYTHONPATH": str(installed)}
    ran = subprocess.run([sys.executable, "-c", check], cwd=tmp_path, env=alone, capture_output=True, text=True)
    found = Path(ran.stdout.strip())
    assert installed in found.parents, ran.stderr
    shipped = {file.name: file.read_bytes() for file in found.iterdir()}
    assert shipped == {file.name: file.read_bytes() for file in (ROOT / "examples/trajectories").glob("*.json")}


def test_a_port_that_is_taken_is_a_message_not_a_traceback(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = subprocess.run(
            [*HANSEI, "up", "--listen", address], cwd=tmp_path, env=environment(), capture_output=True, text=True
        )
    assert ran.returncode == 1
    assert address in ran.stderr
    assert "Traceback" not in ran.stderr


def test_playbooks_are_imported_and_exported_with_no_server_running(
    hansei: Hansei, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {**build_temp_settings(tmp_path), "HANSEI_ADDR": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(client, "DEFAULT_ADDRESS", f"127.0.0.1:{systems.free_port()}")
    (tmp_path / "book.txt").write_text("[a-00001] One lesson.\n", encoding="utf-8")
    done = hansei("playbook", "import", "book.txt", "--dataset", "books", "--json")
    assert done.code == 0, done.err
    assert (done.document["added"], done.document["revision"]) == (1, "1")
    assert "no server is running here" in done.err
    text = hansei("playbook", "export", "--dataset", "books", "--format", "text")
    assert "[a-00001] One lesson." in text.out
    document = hansei("playbook", "export", "--dataset", "books", "--format", "json").document
    assert [bullet["content"] for bullet in document["bullets"]] == ["One lesson."]
    # The command never replaces a server that the user named.
    named = hansei("playbook", "export", "--dataset", "books", "--addr", client.DEFAULT_ADDRESS)
    assert named.code == 3


def test_local_commands_work_on_the_same_data_without_a_server(
    hansei: Hansei, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = copy_trajectories(tmp_path, "local", "git-push-rebased")
    nobody = f"127.0.0.1:{systems.free_port()}"
    learned = subprocess.run(
        [*HANSEI, "learn", file, "--local", "--json"],
        cwd=tmp_path,
        env=environment(HANSEI_ADDR=nobody),
        capture_output=True,
        text=True,
    )
    assert learned.returncode == 0, learned.stderr
    # The next commands read the files that this process wrote.
    monkeypatch.chdir(tmp_path)
    for name in os.environ.keys() - environment().keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("HANSEI_ADDR", nobody)
    shown = hansei("search", "a push was rejected", "--local", "--json")
    assert shown.code == 0, shown.err
    ids = {result["bullet"]["id"] for result in shown.document["results"]}
    assert ids
    exported = hansei("playbook", "export", "--dataset", "local", "--format", "text", "--local")
    assert set(re.findall(r"^\[([^\]]+)\]", exported.out, re.MULTILINE)) >= ids
    (tmp_path / "book.txt").write_text(exported.out, encoding="utf-8")
    copied = hansei("playbook", "import", "book.txt", "--dataset", "copy", "--local", "--json")
    assert int(copied.document["added"]) >= len(ids)


def test_a_failing_model_has_an_exit_code_of_its_own_and_the_command_says_why(
    hansei: Hansei, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = copy_trajectories(tmp_path, "failing", "git-push-forced")
    monkeypatch.chdir(tmp_path)
    with OpenAIServer(otherwise=error(401, "the key is not valid")) as model:
        own = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "sk-wrong", "HANSEI_LLM_PROVIDER": "openai"}
        for name, value in {**build_temp_settings(tmp_path), **own}.items():
            monkeypatch.setenv(name, value)
        failed = hansei("learn", file, "--local", "--verbose")
        model.answer_with(chat_json({"lessons": [], "operations": []}))
        again = hansei("learn", file, "--local")
    assert failed.code == 6
    assert "the model failed for 1 of 1 trajectories, of which 1 were not learned" in failed.err
    assert "HTTP 401" in failed.err
    assert "the rules reflected instead" in " ".join(failed.out.split())
    assert again.code == 0, again.err
