"""The leaderboard, on a real SQLite file."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, inspect

from chassis.errors import RequestIdReused
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard_pb
from libs.storage.errors import StoreCorrupt, StoreUnavailable
from libs.storage.idempotency import IdempotencyKey
from services.validator.adapters.sql import schema
from services.validator.adapters.sql.repository import LeaderBoardStore, ValidatorDatabase
from services.validator.domain.errors import SubmissionNotFound
from services.validator.domain.evaluation import EvaluationResult, MetricScore
from services.validator.domain.leaderboard import (
    JudgementRecord,
    RoundKey,
    Submission,
    TeamScores,
    rank_by_max_score,
    rank_by_shrunken_score,
)
from services.validator.rpc.servicer.leaderboard import LeaderboardServicer
from services.validator.usecases.leaderboard import Leaderboard, Order

START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def request(text: str = "") -> IdempotencyKey:
    return IdempotencyKey(text or str(uuid4()), "Test", b"same")


def submission(team: str = "t1", round_number: int = 1, score: float = 80.0, name: str = "") -> Submission:
    details = EvaluationResult((MetricScore("Coverage", score, "広い"),), score)
    return Submission(RoundKey("e1", team, round_number), name or team.upper(), f"{team} の案", score, details)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[ValidatorDatabase]:
    database = ValidatorDatabase(str(tmp_path / "deep" / "leaderboard.db"))
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def store(database: ValidatorDatabase) -> LeaderBoardStore:
    return LeaderBoardStore(database, Clock())


async def test_responses_are_deleted_by_age(database: ValidatorDatabase, store: LeaderBoardStore) -> None:
    key = request()
    written = await store.upsert(key, submission())
    assert await schema.requests.delete_expired(database, timedelta(0), lambda: START + timedelta(seconds=1)) == 0
    assert await store.upsert(key, submission()) == written  # a replay
    assert await schema.requests.delete_expired(database, timedelta(0), lambda: START + timedelta(seconds=2)) == 1
    assert (await store.upsert(key, submission())).updated_at > written.updated_at


async def test_an_entry_is_written_and_read(store: LeaderBoardStore) -> None:  # V-67, V-69
    written = await store.upsert(request(), submission())
    (read,) = await store.list_entries("e1", None, 10)
    assert read == written
    assert read.submission == submission()
    assert (read.submission.submission_format, read.submission.final_submission) == ("md", False)
    assert read.created_at == read.updated_at == START + timedelta(seconds=1)


async def test_score_details_are_stored_as_rounds_write_them(database: ValidatorDatabase) -> None:  # V-69
    await LeaderBoardStore(database).upsert(request(), submission())
    rows = await database.read(lambda connection: connection.execute(schema.entry.select()).all())
    assert rows[0].score_details == (
        '{"overall_score": 80.0, "metrics": [{"metric_name": "Coverage", "score": 80.0, "evaluator_comment": "広い"}]}'
    )


async def test_writing_an_existing_round_updates_it(store: LeaderBoardStore) -> None:  # V-68
    first = await store.upsert(request(), submission(score=70))
    changed = replace(submission(score=90), final_submission=True, exit_reason="max_rounds_reached")
    second = await store.upsert(request(), changed)
    assert (second.id, second.created_at) == (first.id, first.created_at)
    assert second.updated_at > first.updated_at
    assert await store.list_entries("e1", None, 10) == [second]
    other = await store.upsert(request(), submission(round_number=2))
    assert other.id != first.id


async def test_a_repeated_request_answers_again_and_changes_nothing(store: LeaderBoardStore) -> None:
    first = await store.upsert(request("a"), submission(score=70))
    await store.upsert(request("b"), submission(score=90))
    assert await store.upsert(request("a"), submission(score=70)) == first
    (entry,) = await store.list_entries("e1", None, 10)
    assert entry.submission.score == 90
    with pytest.raises(RequestIdReused):
        await store.upsert(IdempotencyKey("a", "Test", b"other"), submission(score=1))


async def test_tenants_share_no_request_ids(store: LeaderBoardStore) -> None:
    servicer, request_id = LeaderboardServicer(Leaderboard(store)), str(uuid4())
    for execution in ("acme--e1", "evil--e1", "e1"):
        key = leaderboard_pb.RoundKey(execution_id=execution, team_id="t1", round_number=1)
        entry = leaderboard_pb.LeaderBoardEntry(key=key, team_name="T1", submission_content="text", score=80)
        upsert = leaderboard_pb.UpsertLeaderboardEntryRequest(request_id=request_id, entry=entry)
        assert (await servicer.UpsertLeaderboardEntry(upsert, None)).entry.key == key
        judgement = leaderboard_pb.RecordJudgementRequest(request_id=request_id, key=key)
        with pytest.raises(RequestIdReused):
            await servicer.RecordJudgement(judgement, None)


async def test_judgements_are_kept_under_the_same_key(store: LeaderBoardStore) -> None:  # V-71
    await store.upsert(request(), submission())
    key = submission().key
    await store.record_judgement(request(), key, JudgementRecord())
    (entry,) = await store.list_entries("e1", None, 10)
    assert entry.judgement == JudgementRecord(None, None, None)
    judgement = JudgementRecord(should_continue=True, reasoning="伸びている", confidence_score=0.7)
    await store.record_judgement(request(), key, judgement)
    (entry,) = await store.list_entries("e1", None, 10)
    assert entry.judgement == judgement


async def test_teams_are_ranked_by_their_best_submission(store: LeaderBoardStore) -> None:  # V-70, V-71
    rows = [("t2", 1, 80.0), ("t1", 1, 80.0), ("t2", 2, 75.0), ("t3", 1, 90.0)]
    for team, round_number, score in rows:
        await store.upsert(request(), submission(team, round_number, score))
    ranking = await store.get_leader_board_ranking("e1")
    assert [(row["team_id"], row["max_score"], row["total_rounds"]) for row in ranking] == [
        ("t3", 90.0, 1),
        ("t1", 80.0, 1),
        ("t2", 80.0, 2),
    ]
    assert ranking[0].keys() == {"team_id", "team_name", "max_score", "total_rounds"}
    assert await store.get_leader_board_ranking("unknown") == []


async def test_a_team_is_named_as_in_its_last_round(store: LeaderBoardStore) -> None:
    await store.upsert(request(), submission("t1", 2, name="new"))
    await store.upsert(request(), submission("t1", 1, name="old"))
    (team,) = await store.list_team_scores("e1")
    assert team.team_name == "new"


async def test_the_best_submission_of_an_execution_is_returned(store: LeaderBoardStore) -> None:  # V-71, G-61
    leaderboard = Leaderboard(store)
    with pytest.raises(SubmissionNotFound):
        await leaderboard.find_best_submission("e1")
    for round_number, score in ((1, 80.0), (2, 85.0), (3, 85.0), (4, 70.0)):
        await store.upsert(request(), submission("t1", round_number, score))
    await store.upsert(request(), submission("t0", 1, 84.0))
    best = await leaderboard.find_best_submission("e1")
    assert (best.submission.key.team_id, best.submission.key.round_number) == ("t1", 3)
    assert (await leaderboard.find_best_submission("e1", "t0")).submission.score == 84.0
    with pytest.raises(SubmissionNotFound):
        await leaderboard.find_best_submission("e1", "nobody")
    rows = await leaderboard.compute_ranking("e1", Order.SHRUNKEN)
    assert all(row.shrunken_score is not None for row in rows)


async def test_entries_are_paged_by_team_and_round(store: LeaderBoardStore) -> None:
    for team in ("t2", "t1"):
        for round_number in (2, 10, 1):
            await store.upsert(request(), submission(team, round_number))
    positions: list[tuple[str, int]] = []
    after = None
    while page := await store.list_entries("e1", after, 2):
        positions += [(entry.submission.key.team_id, entry.submission.key.round_number) for entry in page]
        after = positions[-1]
    assert positions == [("t1", 1), ("t1", 2), ("t1", 10), ("t2", 1), ("t2", 2), ("t2", 10)]


async def test_entries_survive_a_restart(tmp_path: Path) -> None:  # V-73
    for expected in (0, 1):
        database = ValidatorDatabase(str(tmp_path / "leaderboard.db"))
        await database.open()
        store = LeaderBoardStore(database)
        assert len(await store.list_entries("e1", None, 10)) == expected
        await store.upsert(request(), submission())
        await database.close()


async def test_the_migrations_make_the_tables_of_the_schema(tmp_path: Path) -> None:
    database = ValidatorDatabase(str(tmp_path / "a.db"))
    await database.open()
    await database.close()
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    inspector = inspect(engine)
    assert set(inspector.get_table_names()) == {*schema.metadata.tables, schema.MIGRATIONS.version_table}
    for name, table in schema.metadata.tables.items():
        columns = {column["name"]: column["nullable"] for column in inspector.get_columns(name)}
        assert columns == {column.name: column.nullable for column in table.columns}
    engine.dispose()


class Pauses:
    def __init__(self, until: int = 99, unlock: sqlite3.Connection | None = None) -> None:
        self.seconds: list[float] = []
        self._until, self._unlock = until, unlock

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self._unlock is not None and len(self.seconds) >= self._until:
            self._unlock.rollback()


async def lock_database(
    tmp_path: Path, unlock_after: int
) -> tuple[LeaderBoardStore, Pauses, ValidatorDatabase, sqlite3.Connection]:
    file = tmp_path / "leaderboard.db"
    holder = sqlite3.connect(file, check_same_thread=False)
    pauses = Pauses(unlock_after, holder)
    database = ValidatorDatabase(str(file), pauses, lock_seconds=0)
    await database.open()
    holder.execute("BEGIN IMMEDIATE")
    return LeaderBoardStore(database), pauses, database, holder


async def test_failed_writes_are_retried(tmp_path: Path) -> None:  # V-72
    store, pauses, database, holder = await lock_database(tmp_path, unlock_after=2)
    await store.upsert(request(), submission())
    assert pauses.seconds == [1.0, 2.0]
    assert len(await store.list_entries("e1", None, 10)) == 1
    await database.close()
    holder.close()


async def test_writes_that_keep_failing_are_raised(tmp_path: Path) -> None:  # V-72
    store, pauses, database, holder = await lock_database(tmp_path, unlock_after=99)
    with pytest.raises(StoreUnavailable, match="leaderboard"):
        await store.upsert(request(), submission())
    assert pauses.seconds == [1.0, 2.0, 4.0]
    holder.rollback()
    assert await store.list_entries("e1", None, 10) == []
    await database.close()
    holder.close()


async def test_a_file_that_is_no_database_is_named_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "leaderboard.db"
    file.write_bytes(b"not a database, but long enough to look like one" * 100)
    before = file.read_bytes()
    database = ValidatorDatabase(str(file))
    with pytest.raises(StoreCorrupt, match=r"leaderboard\.db is damaged"):
        await database.open()
    await database.close()
    assert file.read_bytes() == before


def teams(*scores: tuple[float, ...]) -> list[TeamScores]:
    return [TeamScores(f"t{index}", f"T{index}", values) for index, values in enumerate(scores)]


def test_equal_scores_have_different_ranks() -> None:  # V-70
    assert [row.team_id for row in rank_by_max_score(teams((80,), (80, 70), (90,)))] == ["t2", "t0", "t1"]


def test_the_shrunken_board_of_a_single_team_and_of_none() -> None:
    assert rank_by_shrunken_score([]) == []
    (row,) = rank_by_shrunken_score(teams((80.0,)))
    assert (row.shrunken_score, row.standard_error) == (80.0, None)


@pytest.mark.parametrize("rounds", [(1, 5), (1, 1, 1, 1, 5, 5, 5, 5), (1, 1, 1, 5, 5, 5)])
def test_equal_teams_with_one_and_five_rounds_lead_equally_often(rounds: tuple[int, ...]) -> None:
    rng = random.Random(8)
    runs = 4000
    leads = {1: 0, 5: 0}
    best_of = {1: 0, 5: 0}
    for _ in range(runs):
        drawn = teams(*(tuple(rng.gauss(70, 8) for _ in range(count)) for count in rounds))
        leads[rank_by_shrunken_score(drawn)[0].total_rounds] += 1
        best_of[rank_by_max_score(drawn)[0].total_rounds] += 1
    assert 0.45 <= leads[5] / runs <= 0.55
    assert best_of[5] / runs > 0.7  # the ranking by maximum score instead


def test_better_teams_lead_the_shrunken_board() -> None:
    rng = random.Random(9)
    won = 0
    for _ in range(500):
        better = tuple(rng.gauss(76, 8) for _ in range(5))
        worse = tuple(rng.gauss(70, 8) for _ in range(5))
        won += rank_by_shrunken_score(teams(better, worse))[0].team_id == "t0"
    assert won / 500 > 0.8
