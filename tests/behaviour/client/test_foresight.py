"""Learning that helps: recorded runs through the whole loop offline, and what later runs are warned of."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from allinone import commands
from hansei.client.cli.embedded import embedded_client, throwaway
from hansei.client.cli.foresight import MAX_BULLETS, Foresight, ToolCall, Watcher, query_before
from hansei.client.client import Client
from hansei.client.learning import learn
from hansei.client.runs import Run, read
from hansei.curator.v1.curator_service_pb2 import CurateResponse
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.reflector.v1.trajectory_pb2 import SIGNAL_STRENGTH_SELF_REPORT
from services.reflector.domain.actions import actions_of
from services.reflector.rpc.convert import trajectory_from

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples/trajectories"
TAU = Path(os.environ.get("HANSEI_DATA", ROOT.parent / "shared" / "data")) / "tau_bench_airline.jsonl"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with embedded_client(throwaway(tmp_path_factory.mktemp("foresight"))) as client:
        yield client


@pytest.fixture
def dataset() -> str:
    return f"foresight-{uuid.uuid4().hex[:12]}"


def recorded(client: Client, dataset: str, name: str) -> Run:
    """A recorded run as one of `dataset`."""
    [run] = read(client, name, (EXAMPLES / f"{name}.json").read_bytes(), dataset)
    assert isinstance(run, Run)
    run.trajectory.dataset = dataset
    return run


def unproven(run: Run, run_id: str = "") -> Run:
    """The run as an agent without any check reports it."""
    run.trajectory.signal = SIGNAL_STRENGTH_SELF_REPORT
    run.trajectory.ClearField("reward")
    run.trajectory.id = run_id or run.trajectory.id
    return replace(run, ground_truth="", test_report="")


def curated(client: Client, run: Run) -> CurateResponse:
    outcome = learn(client, run)
    assert outcome.response is not None, outcome.failure
    return outcome.response.curation


def bullets(client: Client, dataset: str) -> list[pb.Bullet]:
    return list(client.playbooks.get(dataset=dataset).playbook.bullets)


@pytest.mark.parametrize(
    ("failed", "repaired", "message"),
    [
        ("http-429-hammered", "http-429-waited", "429 Too Many Requests"),
        ("git-commit-identity-repeated", "git-commit-identity", "no email was given"),
    ],
)
def test_a_lesson_gains_the_repair_that_a_later_run_found(
    client: Client, dataset: str, failed: str, repaired: str, message: str
) -> None:
    curated(client, recorded(client, dataset, failed))
    [before] = [each for each in bullets(client, dataset) if message in each.content]
    curation = curated(client, recorded(client, dataset, repaired))
    [after] = [each for each in bullets(client, dataset) if message in each.content]
    assert after.id == before.id
    assert after.content.startswith(before.content)
    assert len(after.content) > len(before.content)
    assert [source.trajectory_id for source in after.sources] == [failed, repaired]
    [update] = [each for each in curation.operations if each.delta.type == pb.DELTA_TYPE_UPDATE]
    assert (update.applied, update.bullet_id) == (True, before.id)
    assert update.delta.reasoning.startswith(f"says all that {before.id} says and more")


def test_two_messages_of_one_tool_are_two_lessons(client: Client, dataset: str) -> None:
    curated(client, recorded(client, dataset, "git-commit-identity-repeated"))
    curated(client, recorded(client, dataset, "git-commit-identity"))
    texts = [each.content for each in bullets(client, dataset)]
    assert sum("no email was given" in text for text in texts) == 1
    assert sum("no name was given" in text for text in texts) == 1


def test_what_tells_the_calls_of_one_task_is_not_kept(client: Client, dataset: str) -> None:
    good = recorded(client, dataset, "http-pages-all")
    bad = recorded(client, dataset, "http-pages-first-only")
    curation = curated(client, replace(bad, siblings=[good.trajectory]))
    declined = [each.skipped_reason for each in curation.operations if bad.trajectory.query in each.delta.content]
    assert declined == ["it tells the calls of one task; a playbook keeps what other tasks can use"]
    assert not any(bad.trajectory.query in each.content for each in bullets(client, dataset))


def test_the_agents_own_word_teaches_only_what_tools_said_until_a_second_run_agrees(
    client: Client, dataset: str
) -> None:
    first = curated(client, unproven(recorded(client, dataset, "http-429-hammered")))
    kept = bullets(client, dataset)
    assert ["429 Too Many Requests" in each.content for each in kept] == [True]
    waiting = {each.delta.content for each in first.pending}
    assert waiting
    curated(client, unproven(recorded(client, dataset, "http-429-hammered"), "another-run"))
    assert {each.content for each in bullets(client, dataset)} == waiting | {kept[0].content}


def test_the_agents_own_word_is_no_vote(client: Client, dataset: str) -> None:
    curated(client, recorded(client, dataset, "git-commit-identity"))
    served = bullets(client, dataset)[0].id
    for believed in (False, True):
        run = recorded(client, dataset, "git-commit-identity-again")
        run.trajectory.used_bullet_ids[:] = [served]
        run.trajectory.cited_bullet_ids[:] = [served]
        curated(client, run if believed else unproven(run, "own-word"))
        assert [each.helpful for each in bullets(client, dataset) if each.id == served] == [int(believed)]


@pytest.fixture(scope="module")
def walk(client: Client) -> tuple[list[Run], Foresight]:
    """The recorded airline runs and what came of going through them."""
    if not TAU.is_file():
        pytest.skip(f"{TAU.name} is not in $HANSEI_DATA nor in ../shared/data")
    runs = [each for each in read(client, TAU.name, TAU.read_bytes(), "airline") if isinstance(each, Run)]
    *_, found = Watcher(client).follow(runs)
    return runs, found


def test_errors_seen_before_are_foreseen_from_a_short_playbook(walk: tuple[list[Run], Foresight]) -> None:
    _, found = walk
    assert found.seen >= 50
    assert found.shares(found.playbook)["foreseen_of_seen"] >= 0.85
    assert found.bullets <= MAX_BULLETS
    assert found.duplicates == 0
    assert found.playbook.of_seen > found.uncurated.of_seen > found.random.of_seen


def test_no_query_holds_the_error_it_asks_about(walk: tuple[list[Run], Foresight]) -> None:
    runs, found = walk
    asked = 0
    for run in runs:
        steps = trajectory_from(run.trajectory, "trajectory").transcript
        failed = [action.error for action in actions_of(steps) if action.error is not None]
        calls = commands.failed_calls(run.trajectory)
        for error, call in zip(failed, calls, strict=True):
            query = query_before(ToolCall(**call)).query_text
            assert error.message not in query
            assert error.kind not in query
            asked += 1
    assert asked == found.errors
