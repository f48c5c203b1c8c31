"""Archived trajectories as they are stored, found, masked and deleted."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from chassis.errors import HanseiError
from hansei.evidence.v1 import archive_pb2, evidence_service_pb2
from hansei.evidence.v1 import archive_service_pb2 as pb
from hansei.reflector.v1 import trajectory_pb2
from libs.storage.idempotency import IdempotencyKey
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.archive import Retention
from services.evidence.domain.archive_errors import (
    ArchiveFull,
    ArchiveNotFound,
    ObjectStoreUnavailable,
    TrajectoryDeleted,
    TrajectoryNotFound,
    TrajectoryRefused,
)
from services.evidence.domain.policy import TrialPolicy
from services.evidence.rpc.convert.archive import decode_request
from services.evidence.tests.archives import (
    DATASET,
    LIMITS,
    NOW,
    list_ids,
    make_trajectory,
    open_archive,
    read,
    store,
)
from services.evidence.usecases.archive import INLINE_BYTES, MAX_THREADS
from services.evidence.usecases.archive_ports import PreparedTrajectory
from services.evidence.usecases.ports import OutcomeReport, RankedBullet
from tests.conftest import create_database, database_location, postgres

__all__ = ["create_database", "database_location", "postgres"]

SECRET = "sk-abcdefgh12345678"


def read_files(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_a_trajectory_is_stored_once_and_read_whole(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, _):
        first, again = await store(servicer), await store(servicer)
        assert (first.stored, again.stored) == (True, False)
        assert first.content_hash == again.content_hash
        found = await read(servicer)
        assert found.trajectory == make_trajectory()
        assert found.ground_truth == "done"
        summary = found.summary
        assert (list(summary.agents), list(summary.tools), summary.steps) == (["coder"], ["bash"], 2)
        (error,) = summary.errors
        assert (error.operation, error.message, error.step) == (
            "git push",
            "error: failed to push some refs to <value>",
            1,
        )
        totals = await servicer.GetRetention(pb.GetRetentionRequest(dataset=DATASET), None)
        assert (totals.trajectories, totals.bytes) == (1, summary.bytes)


async def test_a_trajectory_that_is_learned_again_after_a_deletion_survives_the_erasure(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, archive, clock):
        await store(servicer)
        await store(servicer, "t-2")
        deleted_at = NOW + timedelta(seconds=1)
        clock.now = NOW + timedelta(seconds=2)
        assert not (await store(servicer)).stored
        assert await archive.erase(DATASET, deleted_at)
        assert await list_ids(servicer) == ["t-1"]


async def test_two_contents_with_one_id_are_both_stored(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, _):
        first = await store(servicer)
        second = await store(servicer, query="push the other branch")
        assert second.stored
        assert (await read(servicer)).trajectory.query == "push the other branch"
        assert (await read(servicer, content_hash=first.content_hash)).trajectory.query == "push the branch"


async def test_without_an_id_the_content_names_the_trajectory(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, _):
        first = await store(servicer, "")
        later = make_trajectory("")
        later.created_at.FromDatetime(NOW - timedelta(days=1))
        second = await servicer.StoreTrajectory(
            pb.StoreTrajectoryRequest(dataset=DATASET, trajectory=later, ground_truth="done"), None
        )
        assert first.trajectory_id.startswith("t-")
        assert (second.trajectory_id, second.stored) == (first.trajectory_id, False)


async def test_secrets_are_masked_before_anything_is_stored(tmp_path: Path) -> None:
    secret_call = trajectory_pb2.ToolCall(name="http", arguments=json.dumps({"password": "hunter2-hunter2"}))
    steps = [
        trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_ASSISTANT, content=f"use {SECRET}", tool_calls=[secret_call]),
        trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_TOOL, content='{"access_key": "AKIAabcdef", "ok": true}'),
    ]
    async with open_archive(tmp_path) as (servicer, _, _):
        await store(servicer, steps=steps, query=f"log in with {SECRET}", error_message=f"refused {SECRET}")
        text = str((await read(servicer)).trajectory)
        assert "[redacted]" in text
    stored = read_files(tmp_path)
    for secret in (SECRET, "hunter2-hunter2", "AKIAabcdef"):
        assert secret not in text
        assert secret.encode() not in stored


async def test_trajectories_are_filtered(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, _):
        await store(servicer, "failed")
        passed = make_trajectory("passed", status=trajectory_pb2.TRAJECTORY_STATUS_SUCCESS, used_bullet_ids=["b-9"])
        del passed.steps[1]
        passed.steps[0].name = "reviewer"
        passed.steps[0].tool_calls[0].name = "editor"
        passed.created_at.FromDatetime(NOW - timedelta(days=3))
        await servicer.StoreTrajectory(
            pb.StoreTrajectoryRequest(dataset=DATASET, trajectory=passed, learned_bullet_ids=["b-7"]), None
        )
        assert await list_ids(servicer) == ["passed", "failed"]
        for fields, expected in (
            ({"status": trajectory_pb2.TRAJECTORY_STATUS_FAILURE}, ["failed"]),
            ({"tool": "bash"}, ["failed"]),
            ({"tool": "editor"}, ["passed"]),
            ({"error": "GIT PUSH: error: failed to push"}, ["failed"]),
            ({"error": "100%"}, []),
            ({"served_bullet_id": "b-1"}, ["failed"]),
            ({"served_bullet_id": "b-9"}, ["passed"]),
            ({"cited_bullet_id": "b-2"}, ["passed", "failed"]),
            ({"learned_bullet_id": "b-7"}, ["passed"]),
            ({"learned_bullet_id": "b-1"}, []),
            ({"agent": "reviewer"}, ["passed"]),
            ({"tool": "bash", "agent": "reviewer"}, []),
            ({"created_before": NOW - timedelta(days=1)}, ["passed"]),
            ({"created_from": NOW - timedelta(days=1)}, ["failed"]),
            ({"deleted": True}, []),
        ):
            assert await list_ids(servicer, **fields) == expected, fields


@pytest.mark.parametrize("text", ["ÜBERTRAGUNG", "Übertragung", "übertragung"])
async def test_errors_are_found_regardless_of_case_in_any_script(tmp_path: Path, text: str) -> None:
    async with open_archive(tmp_path) as (servicer, _, _):
        call = trajectory_pb2.ToolCall(id="1", name="send", arguments="{}")
        failed = "error: Übertragung failed"
        steps = [
            trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_ASSISTANT, tool_calls=[call]),
            trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_TOOL, tool_call_id="1", name="send", content=failed),
        ]
        await store(servicer, steps=steps)
        assert await list_ids(servicer, error=text) == ["t-1"]


async def test_learned_bullets_are_added_to_a_stored_trajectory(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, _):
        for learned in (["b-7"], ["b-8"], []):
            request = pb.StoreTrajectoryRequest(
                dataset=DATASET, trajectory=make_trajectory(), learned_bullet_ids=learned
            )
            await servicer.StoreTrajectory(request, None)
        assert list((await read(servicer)).summary.learned_bullet_ids) == ["b-7", "b-8"]
        assert await list_ids(servicer, learned_bullet_id="b-8") == ["t-1"]


async def test_trajectories_are_listed_in_pages(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, _):
        for number in range(5):
            await store(servicer, f"t-{number}")
        request = pb.ListTrajectoriesRequest(dataset=DATASET, page_size=2, tool="bash")
        pages = []
        while True:
            page = await servicer.ListTrajectories(request, None)
            pages.append([trajectory.trajectory_id for trajectory in page.trajectories])
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        assert pages == [["t-4", "t-3"], ["t-2", "t-1"], ["t-0"]]
        request.tool = "editor"
        with pytest.raises(HanseiError, match="page_token"):
            await servicer.ListTrajectories(request, None)


async def test_a_deletion_removes_the_body_and_leaves_a_tombstone(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, clock):
        await store(servicer)
        request = pb.DeleteTrajectoryRequest(dataset=DATASET, trajectory_id="t-1")
        deleted = await servicer.DeleteTrajectory(request, None)
        clock.now += timedelta(hours=1)
        assert await servicer.DeleteTrajectory(request, None) == deleted
        with pytest.raises(TrajectoryDeleted, match="was deleted at 2026-11-25 12:00 UTC"):
            await read(servicer)
        assert await list_ids(servicer) == []
        assert await list_ids(servicer, deleted=True) == ["t-1"]
        assert await list_ids(servicer, tool="bash", deleted=True) == []
        assert not (await store(servicer)).stored
        totals = await servicer.GetRetention(pb.GetRetentionRequest(dataset=DATASET), None)
        assert (totals.trajectories, totals.bytes) == (0, 0)
        with pytest.raises(TrajectoryNotFound, match="has no trajectory 't-2'"):
            await servicer.DeleteTrajectory(pb.DeleteTrajectoryRequest(dataset=DATASET, trajectory_id="t-2"), None)


async def test_a_deleted_archive_stores_nothing_that_was_learned_before(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, clock):
        for number in range(3):
            await store(servicer, f"t-{number}")
        response = await servicer.DeleteArchive(pb.DeleteArchiveRequest(dataset=DATASET), None)
        assert response.trajectories == 3
        late = pb.StoreTrajectoryRequest(dataset=DATASET, trajectory=make_trajectory("late"))
        late.learned_at.FromDatetime(NOW - timedelta(seconds=1))
        clock.now += timedelta(minutes=1)
        assert not (await servicer.StoreTrajectory(late, None)).stored
        assert (await store(servicer, "new")).stored
        assert await list_ids(servicer) == ["new"]


async def test_archives_of_a_prefix_are_deleted(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, archive, _):
        for dataset in ("acme--one", "acme--two", "acme_-one", "other"):
            request = pb.StoreTrajectoryRequest(dataset=dataset, trajectory=make_trajectory(dataset=dataset))
            await servicer.StoreTrajectory(request, None)
        response = await servicer.DeleteArchives(pb.DeleteArchivesRequest(prefix="acme--"), None)
        assert (response.datasets, response.trajectories) == (2, 2)
        sizes = {name: (await archive.find_totals(name)).trajectories for name in await archive.store.list_datasets()}
        assert sizes == {"acme--one": 0, "acme--two": 0, "acme_-one": 1, "other": 1}


async def test_retention_deletes_the_oldest(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, archive, clock):
        for number in range(6):
            await store(servicer, f"t-{number}")
            clock.now += timedelta(days=1)
        size = (await read(servicer, "t-0")).summary.bytes
        policy = archive_pb2.RetentionPolicy(max_age_days=4)
        request = pb.SetRetentionRequest(request_id=str(uuid4()), dataset=DATASET, policy=policy)
        response = await servicer.SetRetention(request, None)
        assert (response.policy.max_age_days, response.policy.max_bytes) == (4, 5_000_000)
        await archive.maintain()
        assert await list_ids(servicer) == ["t-5", "t-4", "t-3", "t-2"]
        policy = archive_pb2.RetentionPolicy(max_bytes=2 * size + 9)
        await servicer.SetRetention(
            pb.SetRetentionRequest(request_id=str(uuid4()), dataset=DATASET, policy=policy), None
        )
        await archive.maintain()
        assert await list_ids(servicer, tool="bash") == ["t-5", "t-4"]
        await servicer.SetRetention(request, None)  # a repeated request changes nothing
        totals = await servicer.GetRetention(pb.GetRetentionRequest(dataset=DATASET), None)
        assert (totals.policy.max_age_days, totals.policy.max_bytes) == (365, 2 * size + 9)
        assert totals.trajectories == 2


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"reward": 0.25}, 0.25),
        ({"status": trajectory_pb2.TRAJECTORY_STATUS_SUCCESS, "signal": trajectory_pb2.SIGNAL_STRENGTH_TEST_REPORT}, 1),
        ({"signal": trajectory_pb2.SIGNAL_STRENGTH_UNSPECIFIED}, 0),  # the ground truth of the request
        ({"signal": trajectory_pb2.SIGNAL_STRENGTH_SELF_REPORT}, None),
        ({"status": trajectory_pb2.TRAJECTORY_STATUS_UNSPECIFIED}, None),
    ],
)
async def test_the_outcome_of_a_trajectory_is_reported_for_its_servings(
    tmp_path: Path, fields: dict[str, Any], outcome: float | None
) -> None:
    evidence = EvidenceRepository(str(tmp_path / "evidence.db"))
    async with open_archive(evidence) as (servicer, _, _):
        key = IdempotencyKey.for_message(evidence_service_pb2.StartTrialsRequest(request_id=str(uuid4())))
        await evidence.start(key, DATASET, TrialPolicy(playbook_holdout=0.0))
        serving_id, _ = await evidence.serve(DATASET, "session", [RankedBullet("b-1", "0" * 16, None)])
        for _ in range(2):
            await store(servicer, serving_ids=[serving_id, "of-other-trials"], **fields)
        trials = await evidence.find_trials(DATASET)
        assert trials is not None
        assert trials.reports.total == (outcome is not None)
        if outcome is not None:
            repeated = await evidence.report(DATASET, OutcomeReport(serving_id, outcome, is_correction=False))
            assert (repeated.counted, repeated.outcome) == (True, outcome)


async def test_large_bodies_are_objects(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    limits = replace(LIMITS, row_bytes=0)
    async with open_archive(tmp_path, limits, folder) as (servicer, archive, _):
        await store(servicer)
        (file,) = [path for path in folder.rglob("*") if path.is_file()]
        assert file.parent.name == DATASET
        assert (await read(servicer)).trajectory == make_trajectory()
        await archive.maintain()
        assert file.exists()
        await servicer.DeleteTrajectory(pb.DeleteTrajectoryRequest(dataset=DATASET, trajectory_id="t-1"), None)
        assert not file.exists()


async def test_nothing_is_half_written_when_the_object_store_is_unavailable(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    limits = replace(LIMITS, row_bytes=0)
    async with open_archive(tmp_path, limits, folder) as (servicer, archive, clock):
        await store(servicer, "before")
        moved = folder.rename(tmp_path / "moved")
        folder.write_text("a file in the place of the folder")
        with pytest.raises(ObjectStoreUnavailable, match="nothing was stored"):
            await store(servicer)
        with pytest.raises(HanseiError):
            await read(servicer, "before")
        # A deletion does not need the object store; its object is deleted later.
        await servicer.DeleteTrajectory(pb.DeleteTrajectoryRequest(dataset=DATASET, trajectory_id="before"), None)
        assert await list_ids(servicer) == []
        folder.unlink()
        moved.rename(folder)
        assert (await store(servicer)).stored
        clock.now += timedelta(hours=2)
        await archive.maintain()
        assert len([path for path in folder.rglob("*") if path.is_file()]) == 1
        assert (await read(servicer)).trajectory == make_trajectory()
        assert await archive.store.list_unused_objects() == []


async def test_a_full_archive_refuses_trajectories(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, _):
        await store(servicer)
        size = (await read(servicer)).summary.bytes
    async with open_archive(tmp_path, replace(LIMITS, archive_bytes=size)) as (servicer, _, _):
        with pytest.raises(ArchiveFull, match=r"the archive is full: .* \(HANSEI_EVIDENCE_ARCHIVE_MAX_BYTES\)"):
            await store(servicer, "more")
        assert not (await store(servicer)).stored  # a known one needs no space
        assert await list_ids(servicer) == ["t-1"]


async def test_invalid_trajectories_are_refused(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, _):
        large = trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_USER, content="x" * 1_000_001)
        future = make_trajectory()
        future.created_at.FromDatetime(NOW + timedelta(hours=1))
        for fields, message in (
            ({"steps": []}, "trajectory.steps is empty"),
            ({"steps": [large]}, "trajectory has 1,000,.* at most 1,000,000"),
            ({"created_at": future.created_at}, "trajectory.created_at is 2026-11-25 13:00:00 UTC, in the future"),
            ({"dataset": "other"}, "dataset mismatch"),
        ):
            with pytest.raises(HanseiError, match=message):
                await store(servicer, **fields)
        with pytest.raises(ArchiveNotFound, match="dataset 'devtools' has no archived trajectories"):
            await list_ids(servicer)
        with pytest.raises(TrajectoryRefused):
            await store(servicer, steps=[])


async def test_concurrent_stores_of_one_trajectory_store_it_once(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (servicer, _, _):
        responses = await asyncio.gather(*(store(servicer) for _ in range(8)))
        assert sum(response.stored for response in responses) == 1
        assert await list_ids(servicer) == ["t-1"]


async def test_large_trajectories_leave_threads_to_other_calls(tmp_path: Path) -> None:
    async with open_archive(tmp_path) as (_, archive, _):
        trajectory = make_trajectory(query="x" * INLINE_BYTES)
        incoming = decode_request(pb.StoreTrajectoryRequest(dataset=DATASET, trajectory=trajectory))
        started, go_on = threading.Semaphore(0), threading.Event()

        def prepare() -> PreparedTrajectory:
            started.release()
            go_on.wait()
            return incoming.prepare()

        slow = [
            replace(incoming, key=replace(incoming.key, trajectory_id=f"t-{number}"), prepare=prepare)
            for number in range(40)
        ]
        stores = [asyncio.create_task(archive.add(trajectory)) for trajectory in slow]
        try:
            async with asyncio.timeout(20):
                for _ in range(MAX_THREADS):
                    await asyncio.to_thread(started.acquire)
                for _ in range(40):
                    await asyncio.to_thread(read_files, tmp_path)
        finally:
            go_on.set()
        assert await asyncio.gather(*stores) == [True] * 40


async def test_a_trajectory_of_a_clock_that_was_ahead_is_deleted_with_its_archive(database_location: str) -> None:
    async with open_archive(EvidenceRepository(database_location)) as (servicer, archive, clock):
        ahead = pb.StoreTrajectoryRequest(dataset=DATASET, trajectory=make_trajectory("ahead"))
        ahead.learned_at.FromDatetime(NOW + timedelta(seconds=200))
        assert (await servicer.StoreTrajectory(ahead, None)).stored
        assert await archive.erase(DATASET, NOW + timedelta(seconds=1))
        clock.now = NOW + timedelta(seconds=2)
        await store(servicer, "later")
        clock.now = NOW - timedelta(hours=1)  # also when the own clock goes back
        assert (await servicer.DeleteArchive(pb.DeleteArchiveRequest(dataset=DATASET), None)).trajectories == 1
        assert await list_ids(servicer) == []


async def test_retention_by_age_finds_trajectories_behind_one_with_a_later_time(database_location: str) -> None:
    async with open_archive(EvidenceRepository(database_location)) as (servicer, archive, clock):
        clock.now = NOW + timedelta(days=300)
        await store(servicer, "ahead")
        clock.now = NOW
        for number in range(3):
            await store(servicer, f"t-{number}")
        clock.now = NOW + timedelta(days=LIMITS.retention.max_age_days + 1)
        await store(servicer, "new")
        await archive.maintain()
        assert await list_ids(servicer) == ["new", "ahead"]
        (size,) = {(await archive.find_totals(DATASET)).size}
        assert await archive.store.delete_expired(DATASET, Retention(9_999, size - 1)) == 1
        assert await list_ids(servicer) == ["new"]


@pytest.mark.parametrize("text", ["İstanbul", "ISTANBUL ẞ", "100%_/ done"])
async def test_an_error_is_found_by_its_stored_text(database_location: str, text: str) -> None:
    result = trajectory_pb2.Step(
        role=trajectory_pb2.STEP_ROLE_TOOL, tool_call_id="1", content=f"Exception: cannot reach {text}"
    )
    async with open_archive(EvidenceRepository(database_location)) as (servicer, _, _):
        await store(servicer, steps=[make_trajectory().steps[0], result])
        await store(servicer, "other")
        (error,) = (await read(servicer)).summary.errors
        assert await list_ids(servicer, error=error.message) == ["t-1"]
        assert await list_ids(servicer, error=error.message.upper() if text.isascii() else error.message) == ["t-1"]
