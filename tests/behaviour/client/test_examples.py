"""Test that the example trajectories have the right form, name no machine, and can be recorded again."""

import json
import re
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from examples.record import SCRIPTS, TRAJECTORIES, record_scripts
from examples.recorder.agent import Agent, ScriptBrokenError
from examples.recorder.task import Script, record
from examples.recorder.trajectory import Trajectory
from examples.recorder.workplace import Workplace

IDS = [script.id for script in SCRIPTS]
FIELDS = list(Trajectory.__dataclass_fields__)
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:tmp|home|root|usr|var|opt|private|Users|work)\b|[A-Z]:\\\\")
LOOPBACK = re.compile(r"127\.0\.0\.1|localhost")
AT_HOST = re.compile(r"\w@([\w.-]+)")
JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def read_committed(id_: str) -> dict[str, Any]:
    trajectory: dict[str, Any] = json.loads((TRAJECTORIES / f"{id_}.json").read_text(encoding="utf-8"))
    return trajectory


@pytest.fixture(scope="module")
def recorded_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        record_scripts(Path(directory))
        yield Path(directory)


def outline(trajectory: dict[str, Any]) -> list[tuple[object, ...]]:
    """Return the parts of a recording that are the same on any machine: the roles, the calls and their outcomes.

    A tool's first line is its outcome ("exit code 128", "HTTP 409 Conflict", the SQL error); the rest may differ in
    words from one version of a tool to the next.
    """
    return [
        (step["role"], step["name"], step.get("tool_calls"), step["content"].split("\n")[0])
        for step in trajectory["steps"]
    ]


@pytest.mark.parametrize("id_", IDS)
def test_recording_again_gives_the_committed_trajectory(recorded_folder: Path, id_: str) -> None:
    again = json.loads((recorded_folder / f"{id_}.json").read_text(encoding="utf-8"))
    before = read_committed(id_)
    assert outline(before) == outline(again)
    for key in ("status", "generated_answer", "error_message", "created_at", "ground_truth", "reasoning_steps"):
        assert before[key] == again[key]


def test_two_recordings_on_one_machine_are_equal_to_the_byte(recorded_folder: Path, tmp_path: Path) -> None:
    for path in record_scripts(tmp_path):
        assert (recorded_folder / path.name).read_bytes() == path.read_bytes()


def test_every_attempt_is_committed_and_nothing_else() -> None:
    assert sorted(f"{id_}.json" for id_ in IDS) == sorted(path.name for path in TRAJECTORIES.iterdir())


@pytest.mark.parametrize("id_", IDS)
def test_a_recorded_trajectory_has_the_documented_format(id_: str) -> None:
    trajectory = read_committed(id_)
    steps = trajectory["steps"]
    assert list(trajectory) == FIELDS
    assert id_ == trajectory["id"]
    assert re.fullmatch(r"[A-Za-z0-9_-]+", trajectory["dataset"])  # C-13
    assert trajectory["status"] in ("success", "failure")
    assert datetime.fromisoformat(trajectory["created_at"]).utcoffset() == timedelta(0)
    assert trajectory["used_bullet_ids"] == trajectory["cited_bullet_ids"] == []
    assert 6 <= len(steps) <= 15
    assert list(range(len(steps))) == [step["index"] for step in steps]
    assert ("user", trajectory["query"]) == (steps[0]["role"], steps[0]["content"])
    assert ("assistant", trajectory["generated_answer"]) == (steps[-1]["role"], steps[-1]["content"])
    assert trajectory["reasoning_steps"] == [step["content"] for step in steps[1:-1:2]]


@pytest.mark.parametrize("id_", IDS)
def test_every_call_is_answered_by_its_tool(id_: str) -> None:
    steps = read_committed(id_)["steps"][1:-1]
    for asking, answering in zip(steps[::2], steps[1::2], strict=True):
        (call,) = asking["tool_calls"]
        assert asking["role"] == "assistant"
        assert ("tool", call["name"], call["id"]) == (answering["role"], answering["name"], answering["tool_call_id"])


@pytest.mark.parametrize("id_", IDS)
def test_the_status_is_the_checks_and_agrees_with_the_answer(id_: str) -> None:
    trajectory = read_committed(id_)
    succeeded = trajectory["status"] == "success"
    assert succeeded == trajectory["test_report"].startswith("passed: ")
    assert succeeded == (trajectory["ground_truth"] in trajectory["generated_answer"])
    assert not (succeeded and trajectory["error_message"])


@pytest.mark.parametrize("id_", IDS)
def test_no_recording_reveals_its_machine(id_: str) -> None:
    text = (TRAJECTORIES / f"{id_}.json").read_text(encoding="utf-8")
    assert MACHINE_PATH.search(text) is None
    assert LOOPBACK.search(text) is None
    # git and the like would show the account as user@host.
    assert set(AT_HOST.findall(text)) <= {"example.com", "example.jp"}


def test_the_examples_cover_what_they_are_for() -> None:
    trajectories = [read_committed(id_) for id_ in IDS]
    outcomes: dict[str, set[str]] = {}
    for trajectory in trajectories:
        outcomes.setdefault(trajectory["task_id"], set()).add(trajectory["status"])
    tools = {step["name"] for trajectory in trajectories for step in trajectory["steps"] if step["role"] == "tool"}
    assert {"git", "sqlite", "python", "http"} <= tools
    assert len(outcomes) >= 6
    assert sum(len(statuses) == 2 for statuses in outcomes.values()) >= 6
    assert any(trajectory["error_message"] for trajectory in trajectories)
    assert any(JAPANESE.search(trajectory["query"]) for trajectory in trajectories)
    assert sum(trajectory["dataset"] == "devtools" for trajectory in trajectories) > len(trajectories) / 2


def test_a_call_that_ends_otherwise_than_scripted_stops_the_recording() -> None:
    def supposes_a_clean_commit(agent: Agent) -> str:
        agent.does("This works.", "git", command="git commit -m 'Nothing is staged'")
        return "Committed."

    script = Script("supposes", SCRIPTS[0].task, supposes_a_clean_commit)
    with pytest.raises(ScriptBrokenError, match="was expected to work"):
        record(script, "2026-01-05T09:00:00Z")


def test_a_recording_that_stops_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = SCRIPTS[0].task

    def supposes_a_tool(agent: Agent) -> str:
        agent.does("This works.", "git", command="git commit -m 'Nothing is staged'")
        return "Committed."

    scripts = (Script("answers", task, lambda agent: task.ground_truth), Script("supposes", task, supposes_a_tool))
    monkeypatch.setattr("examples.record.SCRIPTS", scripts)
    with pytest.raises(ScriptBrokenError):
        record_scripts(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_false_claim_is_a_failure() -> None:
    task = SCRIPTS[0].task
    claim = Script("claims", task, lambda agent: task.ground_truth)
    assert record(claim, "2026-01-05T09:00:00Z").status == "failure"


def test_an_unknown_id_records_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown script 'nope'; known: git-commit"):
        record_scripts(tmp_path / "out", [IDS[0], "nope"])
    assert not (tmp_path / "out").exists()


def test_tools_stay_in_their_workplace(tmp_path: Path) -> None:
    workplace = Workplace(tmp_path)
    with pytest.raises(ValueError, match="leads out of the working directory"):
        workplace.write("../outside.txt", "no")
    with pytest.raises(ValueError, match="'rm' must be git or python"):
        workplace.run("rm -r .")
    assert [path.name for path in tmp_path.iterdir()] == ["work"]
