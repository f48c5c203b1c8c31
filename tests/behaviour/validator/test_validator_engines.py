"""The leaderboard on SQLite and on PostgreSQL: two services on one database, and a database that goes away."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from chassis.errors import RequestIdReused
from libs.storage.errors import StoreUnavailable
from libs.storage.idempotency import IdempotencyKey
from services.validator.adapters.sql.repository import LeaderBoardStore, SqlKindStore, ValidatorDatabase
from services.validator.domain.leaderboard import JudgementRecord, RoundKey, Submission
from services.validator.tests.risk_review import DEFINITION
from tests.support.postgres_server import PostgresServer


async def soon(seconds: float) -> None:
    """A pause between writes, shortened to nothing."""


@pytest.fixture
async def replicas(database_location: str) -> AsyncIterator[list[LeaderBoardStore]]:
    """Yield two services that start at once on one database."""
    opened = [ValidatorDatabase(database_location, soon) for _ in range(2)]
    await asyncio.gather(*(database.open() for database in opened))
    yield [LeaderBoardStore(database) for database in opened]
    for database in opened:
        await database.close()


def request(text: str = "") -> IdempotencyKey:
    return IdempotencyKey(text or str(uuid.uuid4()), "Test", b"same")


def submission(team: str, number: int, score: float) -> Submission:
    return Submission(RoundKey("e1", team, number), team.upper(), "案 🏆", score)


async def test_replicas_read_the_writes_of_each_other(replicas: list[LeaderBoardStore]) -> None:  # V-68, V-70
    first, second = replicas
    written = await first.upsert(request(), submission("t1", 1, 80))
    assert await second.list_entries("e1", None, 10) == [written]
    await second.record_judgement(request(), written.submission.key, JudgementRecord(should_continue=True))
    updated = await second.upsert(request(), submission("t1", 1, 90))
    assert (updated.id, updated.created_at) == (written.id, written.created_at)
    (entry,) = await first.list_entries("e1", None, 10)
    assert (entry.submission.score, entry.judgement) == (90, JudgementRecord(should_continue=True))
    assert [row["max_score"] for row in await first.get_leader_board_ranking("e1")] == [90]


async def test_executions_are_listed_by_their_newest_entries(replicas: list[LeaderBoardStore]) -> None:
    store, _ = replicas
    for execution, team, number, score in (
        ("a-1", "t2", 1, 80.0),
        ("a-2", "t1", 1, 10.0),
        ("b-1", "t1", 1, 50.0),
        ("a-1", "t1", 2, 80.0),
    ):
        key = RoundKey(execution, team, number)
        await store.upsert(request(), Submission(key, f"{team} of round {number}", "案", score))
    found = await store.list_summaries("", None, 10)
    assert [(summary.execution_id, summary.teams, summary.entries, summary.last_round) for summary in found] == [
        ("a-1", 2, 2, 2),
        ("b-1", 1, 1, 1),
        ("a-2", 1, 1, 1),
    ]
    assert (found[0].best_team_id, found[0].best_team_name, found[0].max_score) == ("t1", "t1 of round 2", 80)
    assert found[0].created_at <= found[1].created_at <= found[0].updated_at
    assert await store.list_summaries("a-", None, 10) == [found[0], found[2]]
    assert await store.list_summaries("", found[0].last_id, 1) == [found[1]]
    assert await store.list_summaries("c-", None, 10) == []


async def test_ties_are_ordered_by_code_points_with_any_collation(postgres: PostgresServer) -> None:
    english = postgres.database(options="TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en'")
    database = ValidatorDatabase(english, soon)
    await database.open()
    store = LeaderBoardStore(database)
    for team in ("a", "_", "B"):
        await store.upsert(request(), submission(team, 1, 50.0))
    (summary,) = await store.list_summaries("", None, 10)
    assert summary.best_team_id == "B"
    await database.close()


async def test_racing_writes_of_one_round_leave_one_row(replicas: list[LeaderBoardStore]) -> None:  # V-68
    writes = [replicas[turn % 2].upsert(request(), submission("t1", 1, float(turn))) for turn in range(40)]
    entries = await asyncio.gather(*writes)
    assert len({entry.id for entry in entries}) == 1
    (stored,) = await replicas[0].list_entries("e1", None, 10)
    assert stored.id == entries[0].id


async def test_a_request_is_done_once_on_any_replica(replicas: list[LeaderBoardStore]) -> None:
    writes = [replicas[turn % 2].upsert(request("same"), submission("t1", 1, 80)) for turn in range(10)]
    entries = await asyncio.gather(*writes)
    assert len({(entry.id, entry.updated_at) for entry in entries}) == 1
    with pytest.raises(RequestIdReused):
        await replicas[0].upsert(IdempotencyKey("same", "Test", b"other"), submission("t1", 1, 1))


async def test_kinds_are_kept(database_location: str) -> None:
    database = ValidatorDatabase(database_location, soon)
    await database.open()
    store = SqlKindStore(database)
    await store.add(request(), DEFINITION)
    assert (await store.get(DEFINITION.name)).definition == DEFINITION
    await database.close()


async def test_a_failed_write_is_retried_until_the_server_restarts(lone_postgres: PostgresServer) -> None:  # V-72
    pauses: list[float] = []

    async def restart_at_second_pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            lone_postgres.start()

    database = ValidatorDatabase(lone_postgres.database(), restart_at_second_pause)
    await database.open()
    store = LeaderBoardStore(database)
    await store.upsert(request(), submission("t1", 1, 80))
    lone_postgres.stop()
    await store.upsert(request(), submission("t1", 2, 85))
    assert pauses == [1.0, 2.0]
    assert len(await store.list_entries("e1", None, 10)) == 2

    lone_postgres.stop()
    pauses.extend([0.0, 0.0])  # so that it does not reconnect by itself
    with pytest.raises(StoreUnavailable) as raised:
        await store.upsert(request(), submission("t1", 3, 90))
    assert str(raised.value) == "the leaderboard does not answer: nothing was written"
    assert pauses[-3:] == [1.0, 2.0, 4.0]
    lone_postgres.start()
    assert len(await store.list_entries("e1", None, 10)) == 2
    await database.close()
