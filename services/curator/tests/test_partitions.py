"""The partitioned log of PostgreSQL: each statement on a dataset touches one partition; older replicas go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from alembic import command

from libs.storage import database
from libs.storage.engines import create_database_engine, parse_location
from libs.storage.partitions import list_tables
from services.curator.adapters.sql import schema
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import DeltaContextItem, DeltaType, Proposal, Vote
from services.curator.domain.log import Origin, RevisionKind
from services.curator.usecases.commit import EditBatch, commit
from services.curator.usecases.restore import restore
from tests.conftest import postgres
from tests.support.postgres_server import PostgresServer
from tests.support.touched_partitions import find_unpruned, record_partitions

__all__ = ["postgres"]

PARTITIONED = ("revision", "change", "vote")
DAY = timedelta(days=1)


class Clock:
    now = datetime(2026, 5, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += DAY
        return self.now


@asynccontextmanager
async def open_store(url: str) -> AsyncIterator[SqlPlaybookStore]:
    store = SqlPlaybookStore(url, clock=Clock())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def edit(store: SqlPlaybookStore, dataset: str, kind: DeltaType, bullet_id: str | None, content: str) -> int:
    """Commit an edit with a vote for its bullet; return the revision."""
    delta = DeltaContextItem(type=kind, section="s", bullet_id=bullet_id, content=content, reasoning="why")
    votes = [Vote(bullet_id, "helpful", f"t-{content}", 0, "it was cited")] if kind == "UPDATE" and bullet_id else []
    origin = Origin(RevisionKind.CURATE, "ann", source_trajectory=f"t-{content}")
    batch = EditBatch(origin, [Proposal(delta)], votes)
    done = await store.write(dataset, lambda transaction: commit(transaction, batch))
    assert [operation.applied for operation in done.operations] == [True]
    return done.revision


async def test_statements_on_a_dataset_touch_one_partition(postgres: PostgresServer) -> None:
    with record_partitions(*PARTITIONED) as statements:
        async with open_store(postgres.database()) as store:
            for dataset in ("one", "two"):
                await edit(store, dataset, "ADD", None, "first")
                await edit(store, dataset, "ADD", None, "second")
                for number in range(8):  # the driver prepares a statement that is executed often
                    await edit(store, dataset, "UPDATE", "s-00001", f"first {number}")
                await edit(store, dataset, "DELETE", "s-00002", "")
            assert (await store.load("one", 5)).revision == 5
            assert len(await store.list_revisions("one", None, 50)) == 11
            assert len(await store.list_bullet_revisions("one", "s-00001")) == 9
            assert len(await store.list_revisions_after("one", 5, 50)) == 6
            assert await store.find_revision_at("one", store._clock()) == 11
            origin = Origin(RevisionKind.RESTORE, "ann")
            await store.write("one", lambda transaction: restore(transaction, 4, origin))
            assert await store.write("one", lambda transaction: transaction.has_votes_of("t-first 1"))
            assert await store.write("one", lambda transaction: len(transaction.find_ballots("t-first 1"))) == 1
            await store.write("two", lambda transaction: transaction.delete_contents(origin))
    assert find_unpruned(statements) == []
    read = {name.rpartition("_")[0] for _, partitions in statements for name in partitions}
    assert read == set(PARTITIONED)


async def test_a_replica_of_the_version_before_goes_on_while_rows_move(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.database()
    engine = create_database_engine(parse_location(url), "test", writes=True)
    with engine.begin() as connection:
        command.upgrade(schema.MIGRATIONS.alembic_config(connection), "0002")
    with monkeypatch.context() as patched:
        patched.setattr(database, "upgrade", lambda engine, migrations: None)
        older = open_store(url)
        before = await older.__aenter__()
    await edit(before, "d", "ADD", None, "text")
    for number in range(10):
        await edit(before, "d", "UPDATE", "s-00001", f"before {number}")
    async with open_store(url) as after:
        with engine.begin() as connection:
            assert set(PARTITIONED) < set(list_tables(connection))
        for number in range(10):
            await edit(before, "d", "UPDATE", "s-00001", f"older {number}")
            await edit(after, "d", "UPDATE", "s-00001", f"newer {number}")
        assert [found.number for found in await after.list_revisions("d", None, 50)] == list(range(31, 0, -1))
        assert [(await store.load("d")).bullet_list[0].content for store in (before, after)] == ["newer 9"] * 2
        votes = await after.write("d", lambda transaction: len(transaction.list_ballots_on(0)))
        assert votes == 30
    await older.__aexit__(None, None, None)
    engine.dispose()
