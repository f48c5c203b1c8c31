"""Test `hansei trajectories` and `hansei relearn`."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansei.client import Client
from hansei.client.trajectories import TrajectoryRecord
from hansei.client.trajectory_files import read_trajectories
from hansei.playbook.v1.playbook_pb2 import TARGET_MODE_SHADOW
from hansei.reflector.v1.trajectory_pb2 import (
    STEP_ROLE_ASSISTANT,
    STEP_ROLE_SYSTEM,
    STEP_ROLE_TOOL,
    STEP_ROLE_USER,
    TRAJECTORY_STATUS_FAILURE,
    TRAJECTORY_STATUS_SUCCESS,
    ToolCall,
    Trajectory,
    TrajectoryUsage,
)
from tests.fakes.openai_answers import chat
from tests.fakes.openai_server import OpenAIServer
from tests.support import systems
from tests.support.commands import Hansei, copy_trajectories, dataset, hansei

__all__ = ["dataset", "hansei"]  # fixtures

IDS = ("git-push-forced", "git-push-rebased", "git-commit-identity")


@pytest.fixture
def client(system: systems.System) -> Iterator[Client]:
    with Client(system.address) as client:
        yield client


@pytest.fixture
def archived_dataset(client: Client, dataset: str, tmp_path: Path) -> str:
    """Return a dataset that has learned recorded trajectories, all of which are archived."""
    for file in copy_trajectories(tmp_path, dataset, *IDS):
        for record in read_trajectories(client, str(file), file.read_bytes(), dataset):
            assert isinstance(record, TrajectoryRecord)
            learned = client.learn(record.trajectory, **record.learn_options)
            bullet_ids = [operation.bullet_id for operation in learned.curation.operations if operation.bullet_id]
            # The gateway delivers the trajectory a moment later; storing is idempotent.
            client.archive.store_trajectory(
                dataset=dataset,
                trajectory=record.trajectory,
                ground_truth=record.ground_truth,
                test_report=record.test_report,
                learned_bullet_ids=bullet_ids,
            )
    return dataset


def test_the_source_of_each_bullet_is_opened_by_a_command(
    client: Client, archived_dataset: str, hansei: Hansei
) -> None:
    bullets = client.playbooks.get(dataset=archived_dataset).playbook.bullets
    assert bullets
    for bullet in bullets:
        for source in bullet.sources:
            for step in source.steps:
                shown = hansei("trajectories", "show", source.trajectory_id, "-d", archived_dataset, "--step", step)
                assert shown.code == 0
                assert f"{source.trajectory_id}  step {step} of 0 to" in " ".join(shown.out.split(" "))
            listed = hansei("trajectories", "list", "-d", archived_dataset, "--learned", bullet.id, "--json")
            assert source.trajectory_id in listed.out
    beyond = hansei("trajectories", "show", IDS[0], "-d", archived_dataset, "--step", 999)
    assert beyond.code == 4
    assert f"trajectory {IDS[0]} has no step 999: its steps are 0 to" in beyond.err


def test_lists_of_trajectories_are_filtered(archived_dataset: str, hansei: Hansei) -> None:
    failed = hansei(
        "trajectories", "list", "-d", archived_dataset, "--status", "failure", "--error", "failed to push", "--json"
    )
    assert [json.loads(line)["trajectory_id"] for line in failed.out.splitlines()] == ["git-push-forced"]
    assert (
        hansei("trajectories", "list", "-d", archived_dataset, "--tool", "editor").out.strip()
        == "No trajectory matches."
    )
    assert hansei("trajectories", "list", "-d", archived_dataset, "--status", "good").code == 2


def test_the_usage_that_a_later_call_states_is_shown(client: Client, archived_dataset: str, hansei: Hansei) -> None:
    archived = client.archive.get_trajectory(dataset=archived_dataset, trajectory_id=IDS[0])
    before = hansei("trajectories", "show", IDS[0], "-d", archived_dataset)
    assert "usage" not in before.out
    usage = TrajectoryUsage(input_tokens=1000, cached_input_tokens=400, output_tokens=200, cost_usd=0.0034)
    archived.trajectory.usage.CopyFrom(usage)
    again = client.archive.store_trajectory(
        dataset=archived_dataset,
        trajectory=archived.trajectory,
        ground_truth=archived.ground_truth,
        test_report=archived.test_report,
    )
    assert not again.stored
    shown = hansei("trajectories", "show", IDS[0], "-d", archived_dataset)
    expected = "usage 1,000 tokens sent (400 cached), 200 tokens received, $0.0034"
    assert expected in " ".join(shown.out.split())
    listed = hansei("trajectories", "list", "-d", archived_dataset)
    assert " ".join(listed.out.split()).count("1,200 tokens $0.0034") == listed.out.count("tokens") == 1
    document = hansei("trajectories", "show", IDS[0], "-d", archived_dataset, "--json").document
    assert document["trajectory"]["usage"] == document["summary"]["usage"]
    assert document["summary"]["usage"]["input_tokens"] == "1000"


def test_an_export_is_learned_again_without_a_change(archived_dataset: str, hansei: Hansei, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    assert (
        hansei("trajectories", "export", "-d", archived_dataset, "-o", file).out.strip() == f"3 trajectories in {file}"
    )
    assert len(file.read_text(encoding="utf-8").splitlines()) == 3
    again = hansei("learn", file)
    assert "3 already learned" in " ".join(again.out.split())
    assert hansei("trajectories", "export", "-d", archived_dataset).out == file.read_text(encoding="utf-8")


def test_an_export_that_fails_leaves_the_former_file(hansei: Hansei, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    file.write_text("former\n", encoding="utf-8")
    outcome = hansei("trajectories", "export", "-d", "shop", "-o", file, "--addr", f"127.0.0.1:{systems.free_port()}")
    assert outcome.code == 3
    assert file.read_text(encoding="utf-8") == "former\n"


def test_relearning_shows_the_difference(client: Client, archived_dataset: str, hansei: Hansei) -> None:
    new = f"{archived_dataset}-{uuid.uuid4().hex[:6]}"
    (removed, *others) = client.playbooks.get(dataset=archived_dataset).playbook.bullets
    hansei("forget", removed.id, "-d", archived_dataset)
    result = hansei("relearn", archived_dataset, "--into", new)
    assert result.code == 0, result.err
    text = " ".join(result.out.split())
    assert f"{len(others)} bullet" in text
    assert f"1 bullet only in {new} +" in text
    learned = client.playbooks.get(dataset=new).playbook.bullets
    assert {bullet.content for bullet in learned} == {bullet.content for bullet in (removed, *others)}
    assert hansei("relearn", archived_dataset, "--into", new).code == 0
    hansei("remember", "Rebase before every push.", "-d", new)
    refused = hansei("relearn", archived_dataset, "--into", new)
    assert refused.code == 2
    assert f"--into must be a new dataset, or that of an interrupted relearn; revision 4 of {new} is by" in refused.err
    hansei("dataset", "delete", new, "--yes")
    for _ in range(2):  # the second one finds the deletion in the history
        assert hansei("relearn", archived_dataset, "--into", new).code == 0
    assert hansei("relearn", archived_dataset, "--into", archived_dataset).code == 2
    assert "--model needs --local" in hansei("relearn", archived_dataset, "--into", new, "--model", "m").err


def test_trajectories_are_deleted_from_the_archive(archived_dataset: str, hansei: Hansei) -> None:
    deleted = hansei("trajectories", "delete", IDS[0], IDS[1], "-d", archived_dataset)
    assert deleted.out.strip() == f"2 trajectories deleted from the archive of {archived_dataset}"
    gone = hansei("trajectories", "show", IDS[0], "-d", archived_dataset)
    assert (gone.code, "was deleted at" in gone.err) == (4, True)
    assert hansei("trajectories", "delete", "-d", archived_dataset).code == 2
    everything = hansei("trajectories", "delete", "--all", "--yes", "-d", archived_dataset)
    assert everything.out.strip() == f"1 trajectory deleted from the archive of {archived_dataset}"


def _build_refund(dataset: str, number: int) -> Trajectory:
    """Return a trajectory that fails if it refunds without looking the order up, as every ninth does."""
    is_success = number % 9 > 0
    status = TRAJECTORY_STATUS_SUCCESS if is_success else TRAJECTORY_STATUS_FAILURE
    trajectory = Trajectory(id=f"r{number}", query="Refund A-1.", dataset=dataset, status=status, reward=is_success)
    trajectory.steps.add(role=STEP_ROLE_SYSTEM, content="Look an order up before you refund it.")
    trajectory.steps.add(role=STEP_ROLE_USER, content="Refund A-1.")
    for tool in ("get_order", "refund") if is_success else ("refund",):
        trajectory.steps.add(role=STEP_ROLE_ASSISTANT, tool_calls=[ToolCall(name=tool, arguments='{"id": "A-1"}')])
        trajectory.steps.add(role=STEP_ROLE_TOOL, name=tool, content='{"status": "done"}')
    return trajectory


# The commands mine what they read; the tests above read archives of every form.
@pytest.mark.parametrize("system", ["separate processes"], indirect=True)
def test_guards_are_mined_from_the_archive(
    client: Client, hansei: Hansei, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(90):
        client.archive.store_trajectory(dataset=dataset, trajectory=_build_refund(dataset, number))
    target = "call.tool == 'refund' && !succeeded('get_order')"
    report = hansei("guards", "mine", dataset, "--add", "--json").document
    [guard] = report["guards"]
    assert (report["trajectories"], guard["target"], guard["added"]) == (90, target, True)
    assert (guard["backtest"]["failed_firing"], guard["backtest"]["passed_firing"]) == (10, 0)
    [added] = client.guards.list_all(dataset=dataset).guards
    assert (added.target.expression, added.target.mode) == (target, TARGET_MODE_SHADOW)
    [bullet] = client.playbooks.get(dataset=dataset).playbook.bullets
    assert [list(source.steps) for source in bullet.sources] == [[2]] * 10
    shown = hansei("guards", "mine", dataset, "--add").out
    assert f"is already the target of {added.bullet_id}" in shown
    show_step = next(line for line in shown.splitlines() if "hansei trajectories show" in line).partition("hansei ")[2]
    assert hansei(*show_step.split()).code == 0, show_step
    tested = hansei("guards", "backtest", target, "--archive", dataset, "--json").document
    assert (tested["failed"], tested["failed_firing"], tested["passed"], tested["skipped"]) == (10, 10, 80, 0)
    assert hansei("eval", "guards", "--archive", dataset, "--json").document["coverage"] == 1.0
    assert "highest mode without a pin: shadow" in hansei("guards", "allow", dataset, target).out
    assert hansei("guards", "backtest", target).code == 2
    assert "name a FILE or --archive DATASET" in hansei("guards", "from-policy").err
    with OpenAIServer() as model:
        for name, value in {"LLM_PROVIDER": "openai", "LLM_MODEL": "m", "OPENAI_API_KEY": "k"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        model.script(chat(json.dumps({"targets": [{"lesson": "Look it up.", "target": target}]})))
        written = hansei("guards", "from-policy", "--archive", dataset, "--json")
        assert "Look an order up before you refund it." in model.requests[0].messages[1][1]
        aimed = {
            "lesson": "Read the order before its refund.",
            "target": "call.tool == 'refund' && !called('get_order')",
        }
        model.script(chat(json.dumps({"analysis": "No order was read.", "targets": [aimed]})))
        learned = hansei("guards", "from-failures", "--archive", dataset, "--limit", 1, "--add", dataset, "--json")
    assert written.code == 0, written.err
    assert [(item["failed_firing"], item["passed_firing"]) for item in written.document["targets"]] == [(10, 0)]
    assert learned.code == 0, learned.err
    [item] = learned.document["targets"]
    [bullet] = [
        found for found in client.playbooks.get(dataset=dataset).playbook.bullets if found.content == aimed["lesson"]
    ]
    assert [source.trajectory_id for source in bullet.sources] == [item["trajectory_id"]]
    assert (bullet.target.expression, bullet.target.mode) == (aimed["target"], TARGET_MODE_SHADOW)
