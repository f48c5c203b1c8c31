"""Claude Code itself with hooks and a scripted model: a session is learned, the next is advised, calls are checked."""

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
from tests.fakes.agent_models import AgentModel, serve_agent_model
from tests.support import systems
from tests.support.commands import Hansei
from tests.support.commands import hansei as hansei

PROGRAM = os.environ.get("HANSEI_CLAUDE", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="HANSEI_CLAUDE does not name the program: make test-frameworks")
SECONDS = 60
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
    with systems.one_process(tmp_path_factory.mktemp("claude"), HANSEI_HTTP_ADDRESS=http_address) as system:
        yield system


class Claude:
    """Claude Code in a home of its own, with the hooks that `hansei hooks install` wrote."""

    def __init__(self, folder: Path, model: AgentModel) -> None:
        self.folder = folder
        self._model = model
        self._environment = {
            "HOME": str(folder),
            "CLAUDE_CONFIG_DIR": str(folder / ".claude"),
            "HANSEI_DATA_DIR": str(folder),
            "HANSEI_HOOK_SECONDS": str(SECONDS / 20),
            "PATH": "/usr/bin:/bin",
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }

    def run(self, prompt: str, *commands: str) -> list[Any]:
        """Run a session in which the model requests these commands; return the messages of each request."""
        calls = [("Bash", {"command": command, "description": "run"}) for command in commands]
        self._model.replies = [*calls, "Done."]
        self._model.requests.clear()
        program = [PROGRAM, "-p", prompt, "--allowedTools", "Bash"]
        subprocess.run(
            program, cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, check=True, timeout=120
        )
        return [request["messages"] for request in self._model.requests if request.get("tools")]

    def wait_until_learned(self, sessions: int) -> None:
        log = self.folder / "hooks/learn.log"
        give_up = time.monotonic() + SECONDS
        while not log.exists() or log.read_text(encoding="utf-8").count(": learned") < sessions:
            assert time.monotonic() < give_up, log.read_text(encoding="utf-8")
            time.sleep(0.1)


@pytest.fixture
def dataset() -> str:
    return f"claude-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def claude(
    hansei: Hansei,
    system: systems.System,
    http_address: str,
    model: AgentModel,
    dataset: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Claude:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    address = ["--url", f"http://{http_address}", "--addr", system.address]
    installed = hansei("hooks", "install", "claude", "-d", dataset, *address)
    assert installed.code == 0, installed.err
    return Claude(tmp_path, model)


def test_the_lesson_of_two_sessions_is_in_the_first_request_of_the_third(
    claude: Claude, hansei: Hansei, dataset: str
) -> None:
    npm = "npm() {{ echo 'npm error This repository uses pnpm: run pnpm add' >&2; return 1; }}; npm install {}"
    pnpm = "pnpm() {{ echo '+ {0}'; }}; pnpm add {0}"
    # No outcome of these sessions is trusted, so a lesson that quotes a tool waits for a second one.
    for count, package in enumerate(("zod", "yup"), 1):
        requests = claude.run(f"Add the package {package} to the shop.", npm.format(package), pnpm.format(package))
        assert "pnpm" not in json.dumps(requests[0])
        claude.wait_until_learned(count)
    give_up = time.monotonic() + SECONDS
    while "pnpm" not in hansei("search", "Add a package", "-d", dataset).out:
        assert time.monotonic() < give_up, "the lesson does not appear"
        time.sleep(0.1)
    third = claude.run("Add the package axios to the shop.", pnpm.format("axios"))
    assert "pnpm" in json.dumps(third[0])
    claude.wait_until_learned(3)


def test_calls_get_the_advice_or_the_refusal_of_a_guard(claude: Claude, system: systems.System, dataset: str) -> None:
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
        messages = claude.run("Release it.", "echo npm install zod", "echo npm publish", "echo other")[-1]
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
