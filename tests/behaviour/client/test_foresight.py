"""Test that offline learning from recorded trajectories helps later ones."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from allinone import commands
from hansei.client.cli.embedded_stack import build_temp_settings
from hansei.client.cli.failed_tool_call import FailedToolCall
from hansei.client.cli.foresight import MAX_BULLETS, ForesightCounts, ForesightMeter, build_query_before
from hansei.client.client import Client
from hansei.client.learning import learn
from hansei.client.trajectories import TrajectoryRecord
from hansei.client.trajectory_files import read_trajectories
from hansei.curator.v1.curator_service_pb2 import CurateResponse
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.reflector.v1.trajectory_pb2 import SIGNAL_STRENGTH_SELF_REPORT
from libs.trajectories.actions import extract_actions
from services.reflector.rpc.convert import parse_trajectory

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples/trajectories"
TAU = Path(os.environ.get("HANSEI_DATA", ROOT.parent / "shared" / "data")) / "tau_bench_airline.jsonl"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    settings = build_temp_settings(tmp_path_factory.mktemp("foresight"))
    with Client.local(**settings) as client:
        yield client


@pytest.fixture
def dataset() -> str:
    return f"foresight-{uuid.uuid4().hex[:12]}"


def read_example(client: Client, dataset: str, name: str) -> TrajectoryRecord:
    """Return an example trajectory in `dataset`."""
    [record] = read_trajectories(client, name, (EXAMPLES / f"{name}.json").read_bytes(), dataset)
    assert isinstance(record, TrajectoryRecord)
    record.trajectory.dataset = dataset
    return record


def without_evidence(record: TrajectoryRecord, trajectory_id: str = "") -> TrajectoryRecord:
    """Return a record as an agent without any test reports it."""
    record.trajectory.signal = SIGNAL_STRENGTH_SELF_REPORT
    record.trajectory.ClearField("reward")
    record.trajectory.id = trajectory_id or record.trajectory.id
    return replace(record, ground_truth="", test_report="")


def curate(client: Client, record: TrajectoryRecord) -> CurateResponse:
    outcome = learn(client, record)
    assert outcome.response is not None, outcome.failure
    return outcome.response.curation


def bullets(client: Client, dataset: str) -> list[pb.Bullet]:
    return list(client.playbooks.get(dataset=dataset).playbook.bullets)


@pytest.mark.parametrize(
    ("failed", "repaired", "message", "report"),
    [
        ("http-429-hammered", "http-429-waited", "429 Too Many Requests", "in one task it worked after `wait`."),
        (
            "git-commit-identity-repeated",
            "git-commit-identity",
            "no email was given",
            "in one task it worked after `git config`.",
        ),
    ],
)
def test_a_second_trajectory_of_the_task_confirms_the_lesson_of_an_error_and_reports_what_worked(
    client: Client, dataset: str, failed: str, repaired: str, message: str, report: str
) -> None:
    curate(client, read_example(client, dataset, failed))
    [before] = [bullet for bullet in bullets(client, dataset) if message in bullet.content]
    assert report not in before.content
    curate(client, read_example(client, dataset, repaired))
    [after] = [bullet for bullet in bullets(client, dataset) if message in bullet.content]
    assert after.id == before.id
    assert after.content.endswith(report)
    assert [source.trajectory_id for source in after.sources] == [failed, repaired]


def test_two_messages_of_one_tool_are_two_lessons(client: Client, dataset: str) -> None:
    curate(client, read_example(client, dataset, "git-commit-identity-repeated"))
    curate(client, read_example(client, dataset, "git-commit-identity"))
    texts = [bullet.content for bullet in bullets(client, dataset)]
    assert sum("no email was given" in text for text in texts) == 1
    assert sum("no name was given" in text for text in texts) == 1


def test_the_calls_of_one_task_are_not_learned(client: Client, dataset: str) -> None:
    good = read_example(client, dataset, "http-pages-all")
    bad = read_example(client, dataset, "http-pages-first-only")
    curation = curate(client, replace(bad, siblings=[good.trajectory]))
    declined = [edit.skipped_reason for edit in curation.operations if bad.trajectory.query in edit.delta.content]
    assert declined == ["no response of a tool supports it, and rules have no other evidence; a model may judge it"]
    assert not any(bad.trajectory.query in bullet.content for bullet in bullets(client, dataset))


def test_a_self_report_teaches_only_responses_of_tools(client: Client, dataset: str) -> None:
    first = curate(client, without_evidence(read_example(client, dataset, "http-429-hammered")))
    assert ["429 Too Many Requests" in waiting.delta.content for waiting in first.pending] == [True]
    assert not bullets(client, dataset)
    curate(client, without_evidence(read_example(client, dataset, "http-429-hammered"), "another-run"))
    assert ["429 Too Many Requests" in bullet.content for bullet in bullets(client, dataset)] == [True]


def test_a_self_report_gives_no_vote(client: Client, dataset: str) -> None:
    curate(client, read_example(client, dataset, "git-commit-identity"))
    served = bullets(client, dataset)[0].id
    for believed in (False, True):
        record = read_example(client, dataset, "git-commit-identity-again")
        record.trajectory.used_bullet_ids[:] = [served]
        record.trajectory.cited_bullet_ids[:] = [served]
        curate(client, record if believed else without_evidence(record, "own-word"))
        assert [bullet.helpful for bullet in bullets(client, dataset) if bullet.id == served] == [int(believed)]


@pytest.fixture(scope="module")
def walk(client: Client) -> tuple[list[TrajectoryRecord], ForesightCounts]:
    """Return the recorded airline trajectories, and the counts after the last one."""
    if not TAU.is_file():
        pytest.skip(f"{TAU.name} is not in $HANSEI_DATA nor in ../shared/data")
    parts = read_trajectories(client, TAU.name, TAU.read_bytes(), "airline")
    records = [part for part in parts if isinstance(part, TrajectoryRecord)]
    *_, found = ForesightMeter(client).measure(records)
    return records, found


def test_errors_seen_before_are_foreseen_from_a_short_playbook(
    walk: tuple[list[TrajectoryRecord], ForesightCounts],
) -> None:
    _, found = walk
    assert found.seen >= 50
    assert found.shares(found.playbook)["foreseen_of_seen"] >= 0.8  # examples are among the five bullets (ADR 255)
    assert found.bullets <= MAX_BULLETS
    assert found.duplicates == 0
    assert found.playbook.of_seen > max(found.uncurated.of_seen, found.random.of_seen)


def test_no_query_holds_the_error_it_asks_about(walk: tuple[list[TrajectoryRecord], ForesightCounts]) -> None:
    records, found = walk
    queries = 0
    for record in records:
        steps = parse_trajectory(record.trajectory, "trajectory").transcript
        failed = [action.error for action in extract_actions(steps) if action.error is not None]
        calls = commands.find_failed_calls(record.trajectory)
        for error, call in zip(failed, calls, strict=True):
            query = build_query_before(FailedToolCall(**call)).query_text
            assert error.message not in query
            assert error.kind not in query
            queries += 1
    assert queries == found.errors
