"""Claude Code itself with a scripted model: the adapter of its SDK, the transcripts that it writes, and its hooks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent_models import AgentModel, serve_agent_model
from tests.frameworks.scripted_runs import LESSON, REFUSAL, ScriptedMemory

pytest.importorskip("claude_agent_sdk", reason="the frameworks are not installed: make test-frameworks")
import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions, query

from hansei.client.adapters import claude_agent_sdk as adapter
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.recorded_trajectory import RecordedTrajectory

PROGRAM = Path(claude_agent_sdk.__file__).parent / "_bundled/claude"
TASK = "Make the tests pass"


@pytest.fixture(scope="module")
def model() -> Iterator[AgentModel]:
    with serve_agent_model() as serving:
        yield serving


@pytest.fixture
def environment(model: AgentModel, tmp_path: Path) -> dict[str, str]:
    """Return the whole environment of the program: a home of its own, and the scripted model."""
    return {
        "HOME": str(tmp_path / "home"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "home/.claude"),
        "PATH": "/usr/bin:/bin",
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


def run_claude(environment: dict[str, str], folder: Path, *options: str) -> None:
    command = [str(PROGRAM), "-p", TASK, "--allowedTools", "Bash", *options]
    subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=True, timeout=120)


def find_transcript(environment: dict[str, str]) -> Path:
    (transcript,) = Path(environment["CLAUDE_CONFIG_DIR"]).glob("projects/*/*.jsonl")
    return transcript


def read(transcript: Path) -> RecordedTrajectory:
    parsed = read_trajectories(transcript.read_bytes(), "coding")
    assert parsed.format == "claude_code"
    (recorded,) = parsed.trajectories
    return recorded


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "Bash", {"command": command, "description": "run"}


async def test_an_agent_uses_the_memory(
    model: AgentModel, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in set(os.environ) - {"PYTEST_CURRENT_TEST"}:
        monkeypatch.delenv(name)
    scripted = ScriptedMemory()
    monkeypatch.setattr(scripted, "check", lambda tool, arguments: check(scripted, tool, arguments))
    memory = adapter.ClaudeMemory(scripted)
    model.replies = [bash("echo 0"), bash("echo 2"), "It is done."]
    model.requests.clear()
    options = ClaudeAgentOptions(env=environment, cwd=tmp_path, allowed_tools=["Bash"])
    async for _ in query(prompt=TASK, options=memory.add_hooks(options)):
        pass
    memory.report(succeeded=True)
    assert scripted.tasks == [TASK]
    assert [arguments["command"] for _, arguments in scripted.calls] == ["echo 0", "echo 2"]
    assert all(LESSON in json.dumps(request["messages"]) for request in model.requests if request.get("tools"))
    ((records, succeeded),) = scripted.reports
    assert succeeded
    (recorded,) = read_trajectories(json.dumps(records).encode(), "coding").trajectories
    results = [step.content for step in recorded.trajectory.steps if step.role == "tool"]
    assert results[0].startswith("Error")
    assert REFUSAL in results[0]
    assert results[1] == "2"


def test_a_session_without_a_prompt_has_no_transcript() -> None:
    with pytest.raises(FileNotFoundError, match="it got no prompt"):
        adapter.ClaudeMemory(ScriptedMemory()).report(succeeded=True)


def check(memory: ScriptedMemory, tool: str, arguments: Any) -> Any:
    return ScriptedMemory.check(memory, tool, {**arguments, "x": 0 if arguments["command"] == "echo 0" else 1})


@pytest.mark.parametrize(
    ("commands", "results", "report"),
    [
        (["false"], ["Error: Exit code 1"], ""),
        (["echo out; exit 3", "echo ok"], ["Error: out\n(exit code 3)", "ok"], ""),
        (["pytest() { echo 1 failed; return 1; }; pytest"], ["Error: 1 failed\n(exit code 1)"], "failed"),
        (["pytest() { echo 2 passed; }; pytest"], ["2 passed"], "passed"),
    ],
)
def test_its_transcripts_are_read(
    model: AgentModel,
    environment: dict[str, str],
    tmp_path: Path,
    commands: list[str],
    results: list[str],
    report: str,
) -> None:
    model.replies = [*map(bash, commands), "It is done."]
    run_claude(environment, tmp_path)
    recorded = read(find_transcript(environment))
    steps = recorded.trajectory.steps
    assert recorded.trajectory.query == TASK
    assert [step.content for step in steps if step.role == "tool"] == results
    assert [json.loads(call.arguments)["command"] for step in steps for call in step.tool_calls] == commands
    assert recorded.trajectory.generated_answer == steps[-1].content == "It is done."
    assert recorded.test_report.partition("\n")[0] == (
        f"The last test run of the trajectory {report}." if report else ""
    )


def test_a_continued_session_is_one_trajectory(model: AgentModel, environment: dict[str, str], tmp_path: Path) -> None:
    model.replies = ["What shall I do?"]
    run_claude(environment, tmp_path)
    run_claude(environment, tmp_path, "--continue")
    recorded = read(find_transcript(environment))
    assert [(step.role, step.content) for step in recorded.trajectory.steps] == [
        ("user", TASK),
        ("assistant", "What shall I do?"),
    ] * 2
