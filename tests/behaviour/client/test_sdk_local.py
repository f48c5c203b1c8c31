"""A stack within the caller's process: `Client.local()` and `AsyncClient.local()`."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from hansei.client import AsyncClient, Client
from hansei.client.cli.embedded import throwaway
from hansei.client.runs import Run, read, with_siblings

EXAMPLES = Path(__file__).parents[3] / "examples/trajectories"
RUN = "git-push-rebased"


def test_what_is_learned_locally_is_found_and_is_still_there_the_next_time(tmp_path: Path) -> None:
    settings = throwaway(tmp_path)
    before = {name: os.environ.get(name) for name in settings}
    with Client.local(**settings) as client:
        assert {name: os.environ.get(name) for name in settings} == before, "settings are passed for the start alone"
        (run,) = read(client, RUN, (EXAMPLES / f"{RUN}.json").read_bytes(), "unnamed")
        assert isinstance(run, Run)
        learned = client.learn(
            run.trajectory, ground_truth=run.ground_truth, test_report=run.test_report, request_id=run.request_id
        )
        assert learned.curation.revision == 1
        found = client.search("devtools", "push was rejected", min_revision=1)
        assert found.results
        assert client.ask("devtools", "What if a push is rejected?").model == "offline"

    with Client.local(**settings) as client:
        again = client.learn(
            run.trajectory, ground_truth=run.ground_truth, test_report=run.test_report, request_id=run.request_id
        )
        assert again == learned
        assert client.playbooks.get(dataset="devtools").playbook.revision == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "hansei-stack"]


async def test_the_async_client_runs_the_stack_in_its_own_loop(tmp_path: Path) -> None:
    async with AsyncClient.local(**throwaway(tmp_path)) as client:
        assert list((await client.playbooks.list_datasets()).datasets) == []
        await client.playbooks.apply_deltas(dataset="books", deltas=[])
        assert (await client.search("books", "anything")).results == []


def test_a_stack_that_cannot_start_says_why_and_leaves_nothing_running(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit), Client.local(**{**throwaway(tmp_path), "HANSEI_LLM_PROVIDER": "nobody"}):
        pass
    assert "nobody" in capfd.readouterr().err
    assert not [thread for thread in threading.enumerate() if thread.name == "hansei-stack"]


def test_runs_of_one_task_are_contrasted(tmp_path: Path) -> None:
    files = sorted(EXAMPLES.glob("git-push-*.json"))
    with Client.local(**throwaway(tmp_path)) as client:
        found = [run for file in files for run in read(client, file.name, file.read_bytes(), "unnamed")]
    forced, rebased = with_siblings([run for run in found if isinstance(run, Run)])
    assert [each.id for each in forced.siblings] == [rebased.trajectory.id]
    assert [each.id for each in rebased.siblings] == [forced.trajectory.id]
