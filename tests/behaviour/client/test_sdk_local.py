"""Test `Client.local()` and `AsyncClient.local()`, which run a stack in the process of the caller."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from hansei.client import AsyncClient, Client
from hansei.client.cli.embedded_stack import build_temp_settings
from hansei.client.errors import BadSetting
from hansei.client.local import set_environment
from hansei.client.trajectories import TrajectoryRecord, add_siblings
from hansei.client.trajectory_files import read_trajectories

EXAMPLES = Path(__file__).parents[3] / "examples/trajectories"
RUN = "git-push-rebased"


def test_local_lessons_are_found_and_survive_a_restart(tmp_path: Path) -> None:
    settings = build_temp_settings(tmp_path)
    before = {name: os.environ.get(name) for name in settings}
    with Client.local(**settings) as client:
        assert {name: os.environ.get(name) for name in settings} == before, "settings are passed for the start alone"
        (record,) = read_trajectories(client, RUN, (EXAMPLES / f"{RUN}.json").read_bytes(), "unnamed")
        assert isinstance(record, TrajectoryRecord)
        learned = client.learn(
            record.trajectory,
            ground_truth=record.ground_truth,
            test_report=record.test_report,
            request_id=record.request_id,
        )
        assert learned.curation.revision == 1
        found = client.search("devtools", "push was rejected", min_revision=1)
        assert found.results
        assert client.ask("devtools", "What if a push is rejected?").model == "offline"

    with Client.local(**settings) as client:
        again = client.learn(
            record.trajectory,
            ground_truth=record.ground_truth,
            test_report=record.test_report,
            request_id=record.request_id,
        )
        assert again.already_learned
        assert again.curation == learned.curation
        assert client.playbooks.get(dataset="devtools").playbook.revision == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "hansei-stack"]


MODEL_VARIABLES = ("LLM_PROVIDER", "OPENAI_API_KEY", "OPENAI_BASE_URL")


def test_without_a_provider_and_a_key_the_stack_runs_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MODEL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"HANSEI_{name}", raising=False)
    settings = build_temp_settings(tmp_path)
    del settings["HANSEI_LLM_PROVIDER"]
    with Client.local(**settings) as client:
        client.remember("books", "Close the database before the backup.")
        assert client.ask("books", "When is the database closed?").model == "offline"
    assert "HANSEI_LLM_PROVIDER" not in os.environ


def test_the_provider_of_the_variables_is_used(tmp_path: Path) -> None:
    settings = build_temp_settings(tmp_path)
    del settings["HANSEI_LLM_PROVIDER"]
    with pytest.raises(BadSetting, match="Unknown provider: nobody"), Client.local(**settings, LLM_PROVIDER="nobody"):
        pass


def test_variables_that_change_after_the_start_of_a_stack_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    with set_environment({"LLM_PROVIDER": "offline"}) as restore:
        assert os.environ["LLM_PROVIDER"] == "offline"
        restore()
        assert os.environ["LLM_PROVIDER"] == "openai"
        os.environ["LLM_PROVIDER"] = "anthropic"
    assert os.environ["LLM_PROVIDER"] == "anthropic"


async def test_the_async_client_runs_the_stack_in_its_event_loop(tmp_path: Path) -> None:
    async with AsyncClient.local(**build_temp_settings(tmp_path)) as client:
        assert list((await client.playbooks.list_datasets()).datasets) == []
        added = await client.remember("books", "Close the database before the backup", section="backups")
        found = await client.search("books", "backup", min_revision=added.revision)
        assert [result.bullet.content for result in found.results] == ["Close the database before the backup"]


def test_a_stack_that_cannot_start_gives_the_reason_and_leaves_no_process(tmp_path: Path) -> None:
    settings = {**build_temp_settings(tmp_path), "HANSEI_LLM_PROVIDER": "nobody"}
    with pytest.raises(BadSetting, match=r"^HANSEI_LLM_PROVIDER: Unknown provider: nobody"), Client.local(**settings):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "hansei-stack"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("LLM_PROVIDR", "the nearest is LLM_PROVIDER"),
        ("data_dir", "the nearest is HANSEI_DATA_DIR"),
        ("HTTPS_PROXY", "set variables of other programs in the environment"),
    ],
)
def test_an_unknown_setting_is_refused_by_name(name: str, remedy: str) -> None:
    with pytest.raises(BadSetting) as refused, Client.local(**{name: "offline"}):
        pass
    assert str(refused.value) == f"{name} is not the name of a setting; {remedy}"
    assert not [thread for thread in threading.enumerate() if thread.name == "hansei-stack"]


async def test_the_async_client_refuses_an_unknown_setting() -> None:
    with pytest.raises(BadSetting, match="LLM_PROVIDR is not the name of a setting"):
        async with AsyncClient.local(LLM_PROVIDR="offline"):
            pass


def test_the_data_of_a_running_stack_cannot_be_served_twice(tmp_path: Path) -> None:
    settings = build_temp_settings(tmp_path)
    with Client.local(**settings) as client:
        in_use = rf"the data directory {tmp_path / 'data'} is in use by process {os.getpid()} \("
        with pytest.raises(BadSetting, match=in_use), Client.local(**settings):
            pass
        assert list(client.playbooks.list_datasets().datasets) == []
    with Client.local(**settings) as client:
        assert list(client.playbooks.list_datasets().datasets) == []


def test_trajectories_of_one_task_are_contrasted(tmp_path: Path) -> None:
    files = sorted(EXAMPLES.glob("git-push-*.json"))
    with Client.local(**build_temp_settings(tmp_path)) as client:
        parts = [part for file in files for part in read_trajectories(client, file.name, file.read_bytes(), "unnamed")]
    forced, rebased = add_siblings([part for part in parts if isinstance(part, TrajectoryRecord)])
    assert [sibling.id for sibling in forced.siblings] == [rebased.trajectory.id]
    assert [sibling.id for sibling in rebased.siblings] == [forced.trajectory.id]
