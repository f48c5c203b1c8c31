"""Codex itself with a scripted model: the rollouts that it writes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from tests.fakes.agent_models import AgentModel, Reply, serve_agent_model

PROGRAM = os.environ.get("HANSEI_CODEX", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="HANSEI_CODEX does not name the program: make test-frameworks")
TASK = "Make the tests pass"
CONFIGURATION = """\
model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
"""
PATCH = """\
*** Begin Patch
*** Update File: notes.txt
@@
-{line}
+after
*** End Patch
"""


@pytest.fixture(scope="module")
def model() -> Iterator[AgentModel]:
    with serve_agent_model() as serving:
        yield serving


def record(model: AgentModel, folder: Path, replies: Sequence[Reply]) -> RecordedTrajectory:
    """Run one session, and read the rollout that it wrote."""
    model.replies = [*replies, "It is done."]
    home = folder / "codex"
    home.mkdir()
    (home / "config.toml").write_text(CONFIGURATION.format(url=model.url), encoding="utf-8")
    (folder / "notes.txt").write_text("before\n", encoding="utf-8")
    command = [PROGRAM, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK]
    environment = {"HOME": str(folder), "CODEX_HOME": str(home), "PATH": "/usr/bin:/bin"}
    subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=True, timeout=120)
    (rollout,) = home.glob("sessions/*/*/*/rollout-*.jsonl")
    parsed = read_trajectories(rollout.read_bytes(), "coding")
    assert parsed.format == "codex"
    (recorded,) = parsed.trajectories
    return recorded


def execute(command: str) -> Reply:
    return "exec_command", {"cmd": command}


@pytest.mark.parametrize(
    ("replies", "results", "report"),
    [
        ([], [], ""),
        ([execute("false"), execute("echo ok")], ["Error: exit code 1", "ok\n"], ""),
        ([execute("pytest() { echo 1 failed; return 1; }; pytest")], ["Error: 1 failed\n\n(exit code 1)"], "failed"),
        ([execute("pytest() { echo 2 passed; }; pytest")], ["2 passed\n"], "passed"),
    ],
)
def test_its_rollouts_are_read(
    model: AgentModel, tmp_path: Path, replies: Sequence[Reply], results: list[str], report: str
) -> None:
    recorded = record(model, tmp_path, replies)
    steps = recorded.trajectory.steps
    assert steps[0].role == "user"
    assert steps[0].content == recorded.trajectory.query == TASK
    assert [step.content for step in steps if step.role == "tool"] == results
    assert len([call for step in steps for call in step.tool_calls]) == len(replies)
    assert recorded.trajectory.generated_answer == steps[-1].content == "It is done."
    assert recorded.test_report.partition("\n")[0] == (
        f"The last test run of the trajectory {report}." if report else ""
    )


@pytest.mark.parametrize(("line", "has_failed"), [("before", False), ("something else", True)])
def test_a_patch_that_was_not_applied_is_an_error(
    model: AgentModel, tmp_path: Path, line: str, has_failed: bool
) -> None:
    heredoc = f"apply_patch <<'EOF'\n{PATCH.format(line=line)}EOF\n"
    recorded = record(model, tmp_path, [execute(heredoc)])
    (result,) = (step.content for step in recorded.trajectory.steps if step.role == "tool")
    assert result.startswith("Error") is has_failed
    assert ((tmp_path / "notes.txt").read_text(encoding="utf-8") == "after\n") is not has_failed
