"""A coding agent with hooks repeats no mistake: a lesson of its first session is added to a prompt of its second."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansei.client import Client
from hansei.client.hooks.learner import LearnTask, report_outcome
from hansei.client.hooks.servings import store_serving, take_serving
from hansei.client.trajectories import TrajectoryRecord
from hansei.reflector.v1.trajectory_pb2 import TRAJECTORY_STATUS_FAILURE, TRAJECTORY_STATUS_SUCCESS, Trajectory
from tests.support import systems
from tests.support.commands import Hansei, bullets
from tests.support.commands import hansei as hansei

SECONDS = 60
TRANSCRIPTS = Path(__file__).parents[3] / "examples/transcripts/claude-code"
HOOK = [sys.executable, "-c", "from hansei.client.entry import main; main()", "hook", "claude"]
TESTS = "pnpm test"  # ends each session: tests that pass are trusted, unlike the word of the agent
SECRET = "ghp_0123456789abcdefghij0123456789abcdef"


class ScriptedAgent:
    """Installs packages with npm, which fails, unless its context says pnpm; writes transcripts as Claude Code does."""

    def __init__(self, system: systems.System, http_address: str, dataset: str, folder: Path) -> None:
        self.folder = folder
        self._command = [
            *HOOK, "--dataset", dataset, "--url", f"http://{http_address}", "--addr", system.address,
        ]  # fmt: skip

    def hook(self, event: str, session: str, **fields: Any) -> Any:
        document = {"hook_event_name": event, "session_id": session, "cwd": "/src/shop", **fields}
        document["transcript_path"] = str(self.folder / f"{session}.jsonl")
        environment = {**os.environ, "HANSEI_DATA_DIR": str(self.folder), "HANSEI_HOOK_SECONDS": str(SECONDS)}
        ran = subprocess.run(
            self._command, input=json.dumps(document), capture_output=True, text=True, env=environment, check=True
        )
        return json.loads(ran.stdout)

    def run_session(self, prompt: str, package: str) -> list[str]:
        """Return the commands that the session ran."""
        session = str(uuid.uuid4())
        context = json.dumps(self.hook("UserPromptSubmit", session, prompt=prompt))
        knows = "pnpm" in context
        commands = [f"pnpm add {package}"] if knows else [f"npm install {package}", f"pnpm add {package}"]
        self._write_transcript(session, prompt, [*commands, TESTS])
        assert self.hook("SessionEnd", session, reason="other") == {}
        self._wait_until_learned(session)
        return commands

    def _write_transcript(self, session: str, prompt: str, commands: list[str]) -> None:
        messages: list[tuple[str, Any]] = [("user", f"{prompt} The token is {SECRET}.")]
        for number, command in enumerate(commands):
            messages.append(
                ("assistant", [{"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}])
            )
            is_error = command.startswith("npm")
            text = "Exit code 1\nnpm error This repository uses pnpm: run pnpm add" if is_error else "+ done"
            result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text, "is_error": is_error}
            messages.append(("user", [result]))
        messages.append(("assistant", [{"type": "text", "text": "Done."}]))
        lines = [
            {
                "type": role,
                "uuid": f"u{number}",
                "parentUuid": f"u{number - 1}" if number else None,
                "sessionId": session,
                "message": {"role": role, "content": content},
            }
            for number, (role, content) in enumerate(messages)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.folder / f"{session}.jsonl").write_text(text, encoding="utf-8")

    def _wait_until_learned(self, session: str) -> None:
        log = self.folder / "hooks/learn.log"
        give_up = time.monotonic() + SECONDS
        while f"{session}.jsonl: learned" not in log.read_text(encoding="utf-8"):
            assert time.monotonic() < give_up, log.read_text(encoding="utf-8")
            time.sleep(0.1)


@pytest.fixture(scope="module")
def http_address() -> str:
    return f"127.0.0.1:{systems.free_port()}"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, http_address: str) -> Iterator[systems.System]:
    with systems.one_process(tmp_path_factory.mktemp("hooks"), HANSEI_HTTP_ADDRESS=http_address) as system:
        yield system


def test_the_second_session_gets_the_lesson_of_the_first_at_its_prompt(
    system: systems.System, http_address: str, tmp_path: Path
) -> None:
    dataset = f"hooks-{uuid.uuid4().hex[:12]}"
    agent = ScriptedAgent(system, http_address, dataset, tmp_path)
    assert agent.run_session("Add the package zod to the shop.", "zod") == ["npm install zod", "pnpm add zod"]
    give_up = time.monotonic() + SECONDS
    while not agent.hook("UserPromptSubmit", str(uuid.uuid4()), prompt="Add a package."):
        assert time.monotonic() < give_up, "the lesson does not appear"
        time.sleep(0.1)
    assert agent.run_session("Add the package axios to the shop.", "axios") == ["pnpm add axios"]
    start = agent.hook("SessionStart", str(uuid.uuid4()), source="startup")["hookSpecificOutput"]
    assert start["hookEventName"] == "SessionStart"
    assert "pnpm" in start["additionalContext"]
    assert SECRET not in json.dumps(start)


def test_the_outcome_in_a_transcript_is_reported_for_the_session(
    system: systems.System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSEI_DATA_DIR", str(tmp_path))
    dataset = f"hooks-{uuid.uuid4().hex[:12]}"
    failed = Trajectory(query="Fix the test.", dataset=dataset, status=TRAJECTORY_STATUS_FAILURE)
    unknown = Trajectory(query="Fix the test.", dataset=dataset, status=TRAJECTORY_STATUS_SUCCESS)
    with Client(system.address) as client:
        for trajectory, is_over, is_counted in ((unknown, True, False), (failed, False, False), (failed, True, True)):
            session = str(uuid.uuid4())
            task = LearnTask("claude", session, "", dataset, system.address, is_over)
            if not is_counted:
                store_serving(session, dataset, "serving-1")
            report_outcome(client, task, [TrajectoryRecord("transcript", trajectory, "", "")])
            reported = client.guards.report_session(dataset=dataset, session_id=session, succeeded=True)
            assert reported.counted != is_counted  # the first report of a session counts
            assert (take_serving(session) is None) == is_over  # no file stays behind after a session


def test_a_folder_of_transcripts_is_learned_once_and_what_has_grown_again(
    hansei: Hansei, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSEI_DATA_DIR", str(tmp_path / "data"))
    projects = tmp_path / "projects/-src-shop"
    shutil.copytree(TRANSCRIPTS, projects)
    (transcript,) = projects.iterdir()
    dataset = f"folder-{uuid.uuid4().hex[:12]}"

    def learn(*options: str) -> tuple[int, str]:
        result = hansei("learn", tmp_path / "projects", "-d", dataset, "--json", *options)
        return len(result.lines), result.err

    assert learn() == (1, "")
    assert learn() == (0, "1 files did not change since they were learned; --again reads them, too\n")
    assert learn("--again") == (1, "")
    lines = transcript.read_text(encoding="utf-8").splitlines(keepends=True)
    last = json.loads(lines[-1])
    more = {**last, "uuid": "more", "parentUuid": last["uuid"], "type": "user"}
    more["message"] = {"role": "user", "content": "Thanks."}
    transcript.write_text("".join([*lines, json.dumps(more) + "\n"]), encoding="utf-8")
    before = bullets(hansei, dataset)
    assert learn() == (1, "")
    assert [bullet["content"] for bullet in bullets(hansei, dataset)] == [bullet["content"] for bullet in before]
    assert learn() == (0, "1 files did not change since they were learned; --again reads them, too\n")
