"""The store on a real SQLite file: a log whose fold is the playbook, votes as events, requests done once."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, event, text

from chassis.errors import RequestIdReused
from libs.storage.errors import StoreCorrupt, StoreFull, StoreReadOnly
from libs.storage.idempotency import IdempotencyKey
from services.curator.adapters.sql import schema
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import DeltaContextItem, DeltaType, Proposal, Vote
from services.curator.domain.errors import (
    InvalidDatasetName,
    RevisionAhead,
)
from services.curator.domain.log import Origin, Revision, RevisionKind, fold
from services.curator.domain.playbook import Bullet, Source
from services.curator.usecases.commit import CommitResult, EditBatch, commit, run_once
from services.curator.usecases.ports import DatasetTransaction

ORIGIN = Origin(RevisionKind.APPLY, "tester", "because", request_id="r", source_trajectory="t")


def delta(kind: DeltaType, bullet_id: str | None = None, content: str = "text", section: str = "general") -> Proposal:
    item = DeltaContextItem(type=kind, section=section, bullet_id=bullet_id, content=content, reasoning="why")
    return Proposal(item, (Source(trajectory="t", steps=(1, 2)),))


async def apply(
    store: SqlPlaybookStore,
    *proposals: Proposal,
    votes: Sequence[Vote] = (),
    base_revision: int | None = None,
    dataset: str = "d",
) -> CommitResult:
    return await store.write(
        dataset, lambda transaction: commit(transaction, EditBatch(ORIGIN, proposals, votes, base_revision))
    )


async def bullets(store: SqlPlaybookStore, revision: int | None = None) -> list[Bullet]:
    return (await store.load("d", revision)).bullet_list


async def test_a_dataset_without_revisions_is_empty(store: SqlPlaybookStore) -> None:  # C-14
    snapshot = await store.load("new")
    assert (snapshot.revision, snapshot.bullet_list, await store.list_datasets("", 10)) == (0, [], [])


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b", "a\n", "データ", "a" * 129])
async def test_an_invalid_dataset_name_is_refused(store: SqlPlaybookStore, name: str) -> None:  # C-13, C-82
    with pytest.raises(InvalidDatasetName) as refused:
        await store.load(name)
    (violation,) = refused.value.violations
    assert violation.description == "dataset must be 1 to 128 of the characters A-Z, a-z, 0-9, _ and -"
    with pytest.raises(ValueError, match="Invalid dataset name: '"):
        await store.write(name, lambda transaction: commit(transaction, EditBatch(ORIGIN, [delta("ADD")])))


async def test_every_batch_is_a_revision_that_can_be_read_again(store: SqlPlaybookStore) -> None:
    first = await apply(store, delta("ADD", content="one"), delta("ADD", content="two"))
    second = await apply(store, delta("UPDATE", "gene-00001", "ONE"), delta("DELETE", "gene-00002"))
    assert (first.revision, second.revision) == (1, 2)
    assert [bullet.content for bullet in await bullets(store, 0)] == []
    assert [bullet.content for bullet in await bullets(store, 1)] == ["one", "two"]
    assert [bullet.content for bullet in await bullets(store, 2)] == ["ONE"]
    with pytest.raises(RevisionAhead):
        await store.load("d", 3)


async def test_a_batch_that_changes_nothing_makes_no_revision(store: SqlPlaybookStore) -> None:
    outcome = await apply(store, delta("UPDATE", "nope"), delta("ADD", content=" \n"))
    assert (outcome.revision, [operation.applied for operation in outcome.operations]) == (0, [False, False])


async def test_a_new_bullet_has_its_source(store: SqlPlaybookStore) -> None:
    await apply(store, delta("ADD", content="one"))
    [bullet] = await bullets(store)
    assert bullet == Bullet(
        id="gene-00001",
        section="general",
        content="one",
        searchable_text="one",
        source_trajectory="t",
        sources=(Source(trajectory="t", steps=(1, 2)),),
    )


async def test_votes_count_once_per_bullet_trajectory_and_round(store: SqlPlaybookStore) -> None:  # C-58, C-59
    await apply(store, delta("ADD", content="one"))
    votes = [Vote("gene-00001", "helpful", "run-1", 0), Vote("gene-00001", "harmful", "run-1", 1)]
    once = await apply(store, votes=votes)
    again = await apply(store, votes=[*votes, Vote("gene-00001", "neutral", "run-2", 0)])
    assert [vote.applied for vote in once.votes] == [True, True]
    assert [vote.applied for vote in again.votes] == [False, False, True]
    assert [(bullet.helpful, bullet.harmful) for bullet in await bullets(store)] == [(1, 1)]


async def test_concurrent_updates_conflict_and_adds_and_votes_commute(store: SqlPlaybookStore) -> None:  # C-23, idea 4
    await apply(store, delta("ADD", content="one"))
    await apply(store, delta("UPDATE", "gene-00001", "theirs"), base_revision=1)
    mine = await apply(
        store,
        delta("UPDATE", "gene-00001", "mine"),
        delta("ADD", content="two"),
        votes=[Vote("gene-00001", "helpful", "run")],
        base_revision=1,
    )
    assert [operation.applied for operation in mine.operations] == [False, True]
    [conflict] = [operation for operation in mine.operations if operation.conflict]
    assert conflict.conflict is not None
    assert conflict.conflict.present is not None
    assert conflict.conflict.present.content == "theirs"
    assert [(bullet.content, bullet.helpful) for bullet in await bullets(store)] == [("theirs", 1), ("two", 0)]


async def test_a_delete_since_the_base_is_a_conflict(store: SqlPlaybookStore) -> None:
    await apply(store, delta("ADD", content="one"))
    await apply(store, delta("DELETE", "gene-00001"))
    outcome = await apply(store, delta("UPDATE", "gene-00001", "mine"), base_revision=1)
    [conflict] = outcome.operations
    assert conflict.conflict is not None
    assert (conflict.conflict.changed_in, conflict.conflict.present) == (2, None)


@pytest.mark.parametrize("is_logged", [True, False])
async def test_a_lesson_that_another_writer_added_since_the_base_is_not_added_again(
    store: SqlPlaybookStore, is_logged: bool
) -> None:
    """Older bullets are compared by meaning before; a vote since the base does not make them new."""
    await apply(store, delta("ADD", content="Rebase onto main before a push."))
    await apply(store, delta("ADD", content="Ask for a receipt after payment."))
    await apply(store, votes=[Vote("gene-00001", "helpful", "run")])
    if not is_logged:
        assert await store.drop_old_revisions(timedelta(0)) == 2
    proposals = [
        delta("ADD", content="Rebase onto main before any push."),
        delta("ADD", content="Ask for a receipt after the payment."),
    ]
    batch = EditBatch(ORIGIN, proposals, base_revision=1, threshold=0.6)
    outcome = await store.write("d", lambda transaction: commit(transaction, batch))
    assert [(operation.applied, operation.bullet_id) for operation in outcome.operations] == [
        (True, outcome.operations[0].bullet_id),
        (False, "gene-00002"),
    ]


async def test_a_vote_does_not_make_an_update_conflict(store: SqlPlaybookStore) -> None:
    await apply(store, delta("ADD", content="one"))
    await apply(store, votes=[Vote("gene-00001", "helpful", "run")])
    outcome = await apply(store, delta("UPDATE", "gene-00001", "better"), base_revision=1)
    assert outcome.operations[0].applied


async def rebuilt_equals_kept(store: SqlPlaybookStore, dataset: str) -> None:
    """The fold of the whole log is the table of bullets, and the votes sum up to their counters."""
    head = (await store.load(dataset)).revision
    revisions = await store.list_revisions_after(dataset, 0, head)
    folded = fold(change for revision in revisions for change in revision.changes)
    remaining = dict((await store.load(dataset)).slots)
    assert folded == remaining
    connection = sqlite3.connect(store.name)
    rows = connection.execute(
        "SELECT slot, sum(helpful), sum(harmful) FROM vote WHERE dataset=? AND withdrawn_in IS NULL GROUP BY slot",
        (dataset,),
    )
    sums = {slot: (helpful, harmful) for slot, helpful, harmful in rows}
    connection.close()
    counters = {slot: (item.bullet.helpful, item.bullet.harmful) for slot, item in remaining.items()}
    assert {slot: sums.get(slot, (0, 0)) for slot in remaining} == counters
    assert sums.keys() <= remaining.keys()


async def test_applying_the_log_in_order_gives_the_playbook(store: SqlPlaybookStore) -> None:
    for number in range(40):
        await apply(store, delta("ADD", content=f"lesson {number}", section=f"s{number % 3}"))
        victim = (await bullets(store))[number // 2].id
        votes = [Vote(victim, "helpful" if number % 2 else "harmful", f"run-{number}")]
        await apply(store, delta("UPDATE", victim, f"better {number}"), votes=votes)
        if number % 5 == 4:
            await apply(store, delta("DELETE", victim))
        await rebuilt_equals_kept(store, "d")


async def test_positions_are_places_in_the_playbook(store: SqlPlaybookStore) -> None:
    await apply(store, *(delta("ADD", content=f"lesson {number}") for number in range(30)))
    await apply(store, *(delta("DELETE", f"gene-000{number:02d}") for number in (3, 4, 10)))
    await apply(store, delta("UPDATE", "gene-00012", "twelve"), delta("ADD", content="last"))
    _, deleted, updated = await store.list_revisions_after("d", 0, 10)
    assert [change.position for change in deleted.changes] == [2, 3, 9]
    assert [change.position for change in updated.changes] == [8, 27]
    assert (await bullets(store))[8].content == "twelve"


async def test_positions_count_the_bullets_before_each_change_of_a_revision(store: SqlPlaybookStore) -> None:
    await apply(store, *(delta("ADD", content=f"lesson {number}") for number in range(6)))
    await apply(store, delta("DELETE", "gene-00002"))
    edits = [delta("UPDATE", "gene-00006", "six"), delta("DELETE", "gene-00004"), delta("UPDATE", "gene-00001", "one")]
    await apply(store, *edits)
    [revision] = await store.list_revisions_after("d", 2, 10)
    assert [(change.bullet_id, change.position) for change in revision.changes] == [
        ("gene-00001", 0),
        ("gene-00004", 2),
        ("gene-00006", 3),
    ]


async def test_a_commit_takes_as_many_statements_for_ten_votes_as_for_one(store: SqlPlaybookStore) -> None:
    await apply(store, *(delta("ADD", content=f"lesson {number}") for number in range(20)))
    statements: list[str] = []
    plans: list[str] = []

    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, _context: Any, is_many: bool) -> None:
        statements.append(statement)
        if statement.startswith("SELECT bullet.body") or "FROM vote" in statement:
            steps = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            plans.extend(step[3] for step in steps)

    counts: list[int] = []
    event.listen(store.database.write_engine, "before_cursor_execute", explain)
    for number in (1, 10):
        votes = [Vote(f"gene-000{index:02d}", "helpful", f"run-{number}") for index in range(1, number + 1)]
        served = frozenset(vote.bullet_id for vote in votes)
        batch = EditBatch(ORIGIN, [delta("ADD", content=f"new {number}")], votes, served=served)
        statements.clear()
        await store.write("d", partial(commit, batch=batch))
        counts.append(len(statements))
    assert counts == [11, 11], statements
    assert len(plans) == 6
    assert all(plan.startswith("SEARCH ") and "(dataset=? AND " in plan for plan in plans), plans


async def test_a_repeated_request_gets_the_stored_answer(store: SqlPlaybookStore) -> None:
    key = IdempotencyKey("id-1", "ApplyDeltas", b"digest")
    answers = itertools.count()

    def add_bullet(transaction: DatasetTransaction) -> bytes:
        commit(transaction, EditBatch(ORIGIN, [delta("ADD", content=f"lesson {next(answers)}")]))
        return b"answer %d" % transaction.revision

    first = await store.write("d", run_once(key, add_bullet, b"payload"))
    second = await store.write("d", run_once(key, add_bullet))
    assert (first, second, await store.find_response(key)) == (b"answer 1", b"answer 1", b"answer 1")
    assert await store.find_request("d", "id-1", "ApplyDeltas") == (b"payload", b"answer 1")
    assert len(await bullets(store)) == 1
    with pytest.raises(RequestIdReused):
        await store.write("d", run_once(IdempotencyKey("id-1", "ApplyDeltas", b"other"), add_bullet))
    with pytest.raises(RequestIdReused):
        await store.find_response(IdempotencyKey("id-1", "Curate", b"digest"))


async def test_work_that_fails_leaves_nothing_and_is_not_recorded(store: SqlPlaybookStore) -> None:
    key = IdempotencyKey("id-1", "ApplyDeltas", b"digest")

    def add_and_fail(transaction: DatasetTransaction) -> bytes:
        commit(transaction, EditBatch(ORIGIN, [delta("ADD")]))
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await store.write("d", run_once(key, add_and_fail))
    assert (await store.load("d")).revision == 0
    assert await store.find_response(key) is None


async def test_many_writers_lose_nothing(store: SqlPlaybookStore, revisions_seen: list[Revision]) -> None:  # C-23
    async def writer(name: int) -> None:
        for number in range(10):
            await apply(store, delta("ADD", content=f"lesson {name}.{number}"), base_revision=0)

    await asyncio.gather(*(writer(name) for name in range(20)))
    contents = [bullet.content for bullet in await bullets(store)]
    ids = [bullet.id for bullet in await bullets(store)]
    assert sorted(contents) == sorted(f"lesson {name}.{number}" for name in range(20) for number in range(10))
    assert ids == [f"gene-{number:05d}" for number in range(1, 201)]
    assert [revision.number for revision in revisions_seen] == list(range(1, 201))
    await rebuilt_equals_kept(store, "d")


async def test_a_reopened_store_continues_at_its_revision(database_url: str, store: SqlPlaybookStore) -> None:
    await apply(store, delta("ADD", content="one"))
    other = SqlPlaybookStore(database_url)
    await other.open()
    await apply(other, delta("ADD", content="two"))
    assert [bullet.content for bullet in await bullets(store)] == ["one", "two"]
    await other.close()


async def test_time_never_decreases_in_a_log(database_url: str) -> None:
    start = datetime(2026, 5, 1, tzinfo=UTC)
    times = iter([start, start - timedelta(hours=1), start + timedelta(hours=1)])
    store = SqlPlaybookStore(database_url, clock=lambda: next(times))
    await store.open()
    for number in range(3):
        await apply(store, delta("ADD", content=f"lesson {number}"))
    revisions = await store.list_revisions("d", None, 10)
    assert [revision.stamp.at for revision in revisions] == [start + timedelta(hours=1), start, start]
    assert await store.find_revision_at("d", start) == 2
    assert await store.find_revision_at("d", start - timedelta(minutes=1)) == 0
    await store.close()


async def test_history_shows_author_reason_and_outcome_of_each_delta(store: SqlPlaybookStore) -> None:  # C-24
    await apply(store, delta("ADD", content="one"), delta("DELETE", "nope"))
    await apply(store, delta("UPDATE", "gene-00001", "two"), votes=[Vote("gene-00001", "helpful", "run")])
    newest, oldest = await store.list_revisions("d", None, 10)
    assert (oldest.origin, oldest.summary) == (ORIGIN, "1 added")
    assert [operation.applied for operation in oldest.operations] == [True, False]
    assert (oldest.bullets_before, oldest.bullets_after, newest.bullets_after) == (0, 1, 1)
    [change] = newest.changes
    assert change.before is not None
    assert change.after is not None
    assert (change.before.bullet.content, change.after.bullet.content) == ("one", "two")
    assert [revision.number for revision in await store.list_revisions("d", 2, 10)] == [1]
    assert [revision.number for revision in await store.list_bullet_revisions("d", "gene-00001")] == [1, 2]


async def test_stored_responses_are_deleted_after_their_retention(store: SqlPlaybookStore) -> None:
    key = IdempotencyKey("id-1", "ApplyDeltas", b"digest")
    await store.write("d", run_once(key, lambda transaction: b"answer"))
    assert await store.delete_responses(timedelta(days=1)) == 0
    assert await store.delete_responses(timedelta(seconds=-1)) == 1
    assert await store.find_response(key) is None


async def test_migrations_make_the_schema_the_code_uses(store: SqlPlaybookStore) -> None:
    engine = create_engine(f"sqlite:///{store.name}")
    with engine.connect() as connection:
        options = {"compare_type": True, "version_table": schema.MIGRATIONS.version_table}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, schema.metadata) == []
        assert connection.execute(text("SELECT version_num FROM curator_schema_version")).scalar() == "0003"
    engine.dispose()


async def test_a_file_that_is_no_database_is_data_loss(tmp_path: Path) -> None:  # C-15, C-80
    path = tmp_path / "hansei.db"
    path.write_bytes(b"this is not a database" * 1000)
    store = SqlPlaybookStore(f"sqlite:///{path}")
    with pytest.raises(StoreCorrupt, match=r"hansei\.db.*backup"):
        await store.open()
    assert path.read_bytes().startswith(b"this is not a database")


async def test_a_damaged_bullet_is_data_loss_and_stays_as_it_is(store: SqlPlaybookStore) -> None:  # C-74, C-80
    await apply(store, delta("ADD", content="one"))
    connection = sqlite3.connect(store.name)
    with connection:
        connection.execute("UPDATE bullet SET body = substr(body, 1, 20)")
    connection.close()
    with pytest.raises(StoreCorrupt, match=r"^Playbook file is corrupt: d\. .*hansei\.db is damaged .* backup"):
        await store.load("d")
    with pytest.raises(StoreCorrupt):
        await apply(store, delta("UPDATE", "gene-00001", "two"))


async def test_a_store_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    store = SqlPlaybookStore(f"sqlite:///{tmp_path / 'd' / 'hansei.db'}")
    (tmp_path / "d").rmdir()
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        await store.open()


async def test_a_read_only_database_can_be_read_and_a_write_names_the_cause(store: SqlPlaybookStore) -> None:
    await apply(store, delta("ADD", content="one"))
    read_only = SqlPlaybookStore(f"sqlite:///file:{store.name}?mode=ro&uri=true")
    await read_only.open()
    assert [bullet.content for bullet in await bullets(read_only)] == ["one"]
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        await apply(read_only, delta("ADD", content="two"))
    await read_only.close()


async def test_a_full_disk_keeps_the_old_revision_and_is_reported(store: SqlPlaybookStore) -> None:  # C-18, C-83
    await apply(store, delta("ADD", content="one"))

    def limit_pages(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 60")

    event.listen(store.database.write_engine, "begin", limit_pages)
    with pytest.raises(StoreFull, match="full"):
        await apply(store, *(delta("ADD", content=f"{number} " + "x" * 10_000) for number in range(50)))
    assert [bullet.content for bullet in await bullets(store)] == ["one"]
    assert (await apply(store, delta("UPDATE", "gene-00001", "two"))).revision == 2
