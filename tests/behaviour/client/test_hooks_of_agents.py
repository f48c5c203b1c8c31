"""Claude Code and Codex themselves with hooks and a scripted model: sessions are learned, the next ones are advised."""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansei.client import Client
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, TARGET_MODE_ADVISE, TARGET_MODE_DENY, Delta, Target
from tests.fakes.agent_models import AgentModel, Reply, serve_agent_model
from tests.support import systems
from tests.support.commands import Hansei
from tests.support.commands import hansei as hansei

PROGRAMS = {"claude": os.environ.get("HANSEI_CLAUDE", ""), "codex": os.environ.get("HANSEI_CODEX", "")}
SECONDS = 60
CODEX_CONFIGURATION = """\
model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
"""
ADVICE, REFUSAL = "Run pnpm add, as this repository does.", "Never publish from a laptop."


@pytest.fixture(scope="module")
def model() -> Iterator[AgentModel]:
    with serve_agent_model() as serving:
        yield serving


@pytest.fixture(scope="module")
def http_address() -> str:
    return f"127.0.0.1:{systems.free_port()}"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, http_address: str) -> Iterator[systems.System]:
    with systems.one_process(tmp_path_factory.mktemp("agents"), HANSEI_HTTP_ADDRESS=http_address) as system:
        yield system


class Agent:
    """A coding agent in a home of its own, with the hooks that `hansei hooks install` wrote."""

    def __init__(self, name: str, folder: Path, model: AgentModel) -> None:
        self.folder = folder
        self._name = name
        self._model = model
        self._environment = {
            "HOME": str(folder),
            "CLAUDE_CONFIG_DIR": str(folder / "home"),
            "CODEX_HOME": str(folder / "home"),
            "HANSEI_DATA_DIR": str(folder),
            "HANSEI_HOOK_SECONDS": str(SECONDS / 20),
            "PATH": "/usr/bin:/bin",
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }
        if name == "codex":
            (folder / "home/config.toml").write_text(CODEX_CONFIGURATION.format(url=model.url), encoding="utf-8")

    def run(self, prompt: str, *commands: str) -> list[Any]:
        """Run a session in which the model requests these commands; return the messages of each request."""
        if self._name == "codex":
            calls: list[Reply] = [("exec_command", {"cmd": command}) for command in commands]
            program = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
            program += ["--dangerously-bypass-hook-trust", prompt]  # as if a person had reviewed the hooks
        else:
            calls = [("Bash", {"command": command, "description": "run"}) for command in commands]
            program = ["-p", prompt, "--allowedTools", "Bash"]
        self._model.replies = [*calls, "Done."]
        self._model.requests.clear()
        subprocess.run(
            [PROGRAMS[self._name], *program],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=120,
        )
        return [request.get("messages") or request["input"] for request in self._model.requests if request.get("tools")]

    def wait_until_learned(self, sessions: int) -> None:
        log = self.folder / "hooks/learn.log"
        give_up = time.monotonic() + SECONDS
        while not log.exists() or log.read_text(encoding="utf-8").count(": learned") < sessions:
            assert time.monotonic() < give_up, log.read_text(encoding="utf-8") if log.exists() else "nothing is learned"
            time.sleep(0.1)


@pytest.fixture
def dataset() -> str:
    return f"agent-{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=["claude", "codex"])
def agent(
    request: pytest.FixtureRequest,
    hansei: Hansei,
    system: systems.System,
    http_address: str,
    model: AgentModel,
    dataset: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Agent:
    name: str = request.param
    if not PROGRAMS[name]:
        pytest.skip(f"HANSEI_{name.upper()} does not name the program: make test-frameworks")
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    address = ["--url", f"http://{http_address}", "--addr", system.address]
    installed = hansei("hooks", "install", name, "-d", dataset, *address)
    assert installed.code == 0, installed.err
    return Agent(name, tmp_path, model)


def test_the_lesson_of_two_sessions_is_in_the_first_request_of_the_third(
    agent: Agent, hansei: Hansei, dataset: str
) -> None:
    npm = "npm() {{ echo 'npm error This repository uses pnpm: run pnpm add' >&2; return 1; }}; npm install {}"
    pnpm = "pnpm() {{ echo '+ {0}'; }}; pnpm add {0}"
    # No outcome of these sessions is trusted, so a lesson that quotes a tool waits for a second one.
    for count, package in enumerate(("zod", "yup"), 1):
        requests = agent.run(f"Add the package {package} to the shop.", npm.format(package), pnpm.format(package))
        assert "pnpm" not in json.dumps(requests[0])
        agent.wait_until_learned(count)
    give_up = time.monotonic() + SECONDS
    while "pnpm" not in hansei("search", "Add a package", "-d", dataset).out:
        assert time.monotonic() < give_up, "the lesson does not appear"
        time.sleep(0.1)
    third = agent.run("Add the package axios to the shop.", pnpm.format("axios"))
    assert "pnpm" in json.dumps(third[0])
    agent.wait_until_learned(3)


@pytest.mark.parametrize("agent", ["claude"], indirect=True)
def test_calls_get_the_advice_or_the_refusal_of_a_guard(agent: Agent, system: systems.System, dataset: str) -> None:
    modes = {
        ADVICE: ("npm install", TARGET_MODE_ADVISE),
        REFUSAL: ("npm publish", TARGET_MODE_DENY),
    }
    deltas = []
    for content, (command, mode) in modes.items():
        expression = f"call.tool == 'Bash' && call.args.command.contains('{command}')"
        target = Target(expression=expression, mode=mode, pinned=True)
        deltas.append(Delta(type=DELTA_TYPE_ADD, section="shop", content=content, target=target))
    with Client(system.address) as client:
        client.playbooks.apply_deltas(dataset=dataset, deltas=deltas, reason="the release rules of the shop")
    give_up = time.monotonic() + SECONDS
    while True:
        messages = agent.run("Release it.", "echo npm install zod", "echo npm publish", "echo other")[-1]
        shown = json.dumps(messages)
        if REFUSAL in shown:
            break
        assert time.monotonic() < give_up, "the guards are not evaluated"
    results = {
        block["tool_use_id"]: block
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    }
    assert ADVICE in shown
    assert [bool(results[f"toolu_{number}"].get("is_error")) for number in range(3)] == [False, True, False]
    assert REFUSAL in json.dumps(results["toolu_1"])
