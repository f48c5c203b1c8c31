"""The overview equals what one would count in the archive, after any sequence of changes."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hansei.evidence.v1 import archive_service_pb2 as pb
from hansei.evidence.v1 import overview_service_pb2
from hansei.reflector.v1 import trajectory_pb2
from services.evidence.adapters.sql.archive_days import OverviewRepository
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.overview import MAX_AGENTS_PER_TRAJECTORY, estimate_share
from services.evidence.rpc.servicer.archive import ArchiveServicer
from services.evidence.rpc.servicer.overview import OverviewServicer
from services.evidence.tests.archives import DATASET, NOW, make_trajectory, open_archive, read, store

SUCCESS = trajectory_pb2.TRAJECTORY_STATUS_SUCCESS
FAILURE = trajectory_pb2.TRAJECTORY_STATUS_FAILURE


async def read_overview(store: EvidenceRepository, **fields: int) -> overview_service_pb2.GetOverviewResponse:
    servicer = OverviewServicer(OverviewRepository(store.database))
    return await servicer.GetOverview(overview_service_pb2.GetOverviewRequest(dataset=DATASET, **fields), None)


async def store_on(servicer: ArchiveServicer, trajectory_id: str, days_ago: int, **fields: object) -> None:
    trajectory = make_trajectory(trajectory_id, **fields)
    trajectory.created_at.FromDatetime(NOW - timedelta(days=days_ago))
    await servicer.StoreTrajectory(pb.StoreTrajectoryRequest(dataset=DATASET, trajectory=trajectory), None)


async def test_trajectories_are_counted_by_day_and_by_whether_they_had_bullets(tmp_path: Path) -> None:
    evidence = EvidenceRepository(str(tmp_path / "evidence.db"))
    async with open_archive(evidence) as (servicer, _, _):
        await store_on(servicer, "first", 1)
        await store_on(servicer, "second", 0, used_bullet_ids=[])
        await store_on(servicer, "third", 0, status=SUCCESS)
        overview = await read_overview(evidence)
    assert [day.date for day in overview.days] == ["2026-11-24", "2026-11-25"]
    assert [day.with_playbook.counts.trajectories for day in overview.days] == [1, 1]
    assert [day.without_playbook.counts.trajectories for day in overview.days] == [0, 1]
    # The first one has the error for the first time, the others repeat it.
    assert overview.with_playbook.counts.with_repeated_errors == 1
    assert overview.without_playbook.counts.with_repeated_errors == 1
    assert (overview.with_playbook.success_rate.share, overview.with_playbook.success_rate.trajectories) == (0.5, 2)
    (agent,) = overview.agents
    assert (agent.agent, agent.with_playbook.counts.trajectories) == ("coder", 2)


async def test_the_overview_is_of_the_newest_days(tmp_path: Path) -> None:
    evidence = EvidenceRepository(str(tmp_path / "evidence.db"))
    async with open_archive(evidence) as (servicer, _, _):
        for number in range(4):
            await store_on(servicer, f"t-{number}", 10 * number)
        overview = await read_overview(evidence, days=2)
    assert [day.date for day in overview.days] == ["2026-11-15", "2026-11-25"]
    assert overview.with_playbook.counts.trajectories == 2


async def test_a_dataset_without_archive_has_an_empty_overview(tmp_path: Path) -> None:
    evidence = EvidenceRepository(str(tmp_path / "evidence.db"))
    async with open_archive(evidence):
        overview = await read_overview(evidence)
    assert not overview.days
    assert overview.with_playbook.success_rate.trajectories == 0


async def test_a_trajectory_of_many_agents_is_counted_for_a_few_of_them(tmp_path: Path) -> None:
    evidence = EvidenceRepository(str(tmp_path / "evidence.db"))
    steps = [
        trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_ASSISTANT, name=f"agent-{number}", content="Done.")
        for number in range(30)
    ]
    async with open_archive(evidence) as (servicer, _, _):
        await store_on(servicer, "crowd", 0, steps=steps)
        overview = await read_overview(evidence)
    assert len(overview.agents) == MAX_AGENTS_PER_TRAJECTORY
    assert overview.with_playbook.counts.trajectories == 1


@pytest.mark.parametrize("seed", range(3))
async def test_the_sums_equal_a_count_of_the_archive_after_any_changes(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    evidence = EvidenceRepository(str(tmp_path / "evidence.db"))
    async with open_archive(evidence) as (servicer, archive, clock):
        for number in range(40):
            match source.randrange(6):
                case 0:
                    request = pb.DeleteTrajectoryRequest(dataset=DATASET, trajectory_id=f"t-{source.randrange(12)}")
                    if (await archive.store.find_totals(DATASET)) is not None:
                        await archive.store.delete(DATASET, request.trajectory_id)
                case 1 if number == 20 + seed:
                    await archive.delete_archive(DATASET)
                case _:
                    clock.now += timedelta(seconds=1)
                    await store_on(
                        servicer,
                        f"t-{source.randrange(12)}",
                        source.randrange(3),
                        status=source.choice([SUCCESS, FAILURE]),
                        used_bullet_ids=source.choice([[], ["b-1"]]),
                        query=source.choice(["push", "pull"]),
                        usage=make_usage(source),
                    )
        overview = await read_overview(evidence)
        listed = await servicer.ListTrajectories(pb.ListTrajectoriesRequest(dataset=DATASET, page_size=1000), None)
    groups = (overview.with_playbook, {True}), (overview.without_playbook, {False}), (overview.total, {True, False})
    for group, has_bullets in groups:
        members = [found for found in listed.trajectories if bool(found.served_bullet_ids) in has_bullets]
        assert group.counts.trajectories == len(members)
        assert group.counts.succeeded == sum(found.status == SUCCESS for found in members)
        assert group.counts.failed == sum(found.status == FAILURE for found in members)
        assert group.counts.with_errors == sum(bool(found.errors) for found in members)
        assert group.counts.steps == sum(found.steps for found in members)
        assert group.usage.input_tokens == sum(found.usage.input_tokens for found in members)
        assert group.usage.output_tokens == sum(found.usage.output_tokens for found in members)
        with_tokens = [
            {"input_tokens", "output_tokens"} & set(map(get_name, found.usage.ListFields())) for found in members
        ]
        assert group.usage.trajectories_with_tokens == sum(map(bool, with_tokens))
        assert group.usage.trajectories_with_cost == sum(found.usage.HasField("cost_usd") for found in members)
        assert group.usage.cost_usd == pytest.approx(sum(found.usage.cost_usd for found in members), abs=1e-6)
    assert all(
        day.with_playbook.counts.trajectories + day.without_playbook.counts.trajectories for day in overview.days
    )


def get_name(field: tuple[Any, object]) -> str:
    name: str = field[0].name
    return name


def make_usage(source: random.Random) -> trajectory_pb2.TrajectoryUsage | None:
    """Return a usage of which each value may be unknown, or None."""
    tokens = {name: source.randrange(1000) for name in ("input_tokens", "output_tokens") if source.random() < 0.7}
    usage = trajectory_pb2.TrajectoryUsage(**tokens)
    if source.random() < 0.5:
        usage.cost_usd = source.random()
    return usage if source.random() < 0.7 else None


async def test_tokens_and_cost_are_summed_where_they_are_known(tmp_path: Path) -> None:
    evidence = EvidenceRepository(str(tmp_path / "evidence.db"))
    usage = trajectory_pb2.TrajectoryUsage(input_tokens=100, cached_input_tokens=40, output_tokens=7, cost_usd=0.1)
    async with open_archive(evidence) as (servicer, _, _):
        await store_on(servicer, "first", 0, usage=usage)
        await store_on(servicer, "second", 0, usage=usage)
        await store_on(servicer, "unknown", 0)
        await store_on(servicer, "tokens", 1, usage=trajectory_pb2.TrajectoryUsage(output_tokens=5), used_bullet_ids=[])
        overview = await read_overview(evidence)
    yesterday, today = overview.days
    assert (
        yesterday.without_playbook.usage.trajectories_with_tokens,
        yesterday.without_playbook.usage.output_tokens,
    ) == (
        1,
        5,
    )
    assert not yesterday.without_playbook.usage.HasField("cost_usd")
    expected = overview_service_pb2.UsageTotals(
        trajectories_with_tokens=2,
        input_tokens=200,
        cached_input_tokens=80,
        output_tokens=14,
        trajectories_with_cost=2,
        cost_usd=0.2,
    )
    assert today.with_playbook.usage == expected
    assert today.with_playbook.counts.trajectories == 3
    (agent,) = overview.agents
    assert agent.with_playbook.usage == expected
    assert (overview.total.usage.output_tokens, overview.total.usage.trajectories_with_tokens) == (19, 3)


async def test_a_usage_that_a_later_call_states_is_added_once(tmp_path: Path) -> None:
    evidence = EvidenceRepository(str(tmp_path / "evidence.db"))
    usage = trajectory_pb2.TrajectoryUsage(input_tokens=100, output_tokens=0, cost_usd=0.1)
    async with open_archive(evidence) as (servicer, archive, _):
        first = await store(servicer)
        again = await store(servicer, usage=usage)
        other = await store(servicer, usage=trajectory_pb2.TrajectoryUsage(input_tokens=5))
        overview = await read_overview(evidence)
        found = await read(servicer)
        await archive.delete(DATASET, "t-1")
        await store(servicer, usage=usage)
        after = await read_overview(evidence)
    assert first.content_hash == again.content_hash == other.content_hash
    assert [first.stored, again.stored, other.stored] == [True, False, False]
    assert found.trajectory.usage == found.summary.usage == usage
    assert overview.total.counts.trajectories == 1
    assert (overview.total.usage.input_tokens, overview.total.usage.cost_usd) == (100, 0.1)
    assert not after.days


async def test_a_trajectory_from_files_of_two_formats_is_counted_once(tmp_path: Path) -> None:
    evidence = EvidenceRepository(str(tmp_path / "evidence.db"))
    steps = [trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_ASSISTANT, content="done")]
    sources = [trajectory_pb2.Step(role=step.role, content=step.content, source="messages[0]") for step in steps]
    async with open_archive(evidence) as (servicer, _, _):
        first, again = await store(servicer, steps=sources), await store(servicer, steps=steps)
        found = await read(servicer)
        overview = await read_overview(evidence)
    assert [first.stored, again.stored] == [True, False]
    assert list(found.trajectory.steps) == sources
    assert overview.with_playbook.counts.trajectories == 1


async def test_a_repeated_delivery_is_counted_once(tmp_path: Path) -> None:
    evidence = EvidenceRepository(str(tmp_path / "evidence.db"))
    async with open_archive(evidence) as (servicer, _, _):
        await store(servicer)
        await store(servicer)
        overview = await read_overview(evidence)
    assert overview.with_playbook.counts.trajectories == 1


def test_the_interval_of_a_share_is_wilsons() -> None:
    estimate = estimate_share(8, 10)
    assert (round(estimate.lower, 3), round(estimate.upper, 3)) == (0.490, 0.943)
    assert estimate_share(0, 20).lower == 0
    assert estimate_share(0, 0).trajectories == 0
