"""One writer commits in groups; a failed unit of work affects no other; readers see one state."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, Text, column, event, select, table, text

from chassis.errors import Internal, NotFound
from libs.storage.database import Database
from libs.storage.errors import StoreConflict, StoreUnavailable
from libs.storage.migrations import VERSION_COLUMN, Migrations
from libs.storage.tests.tables import add_item, item_names, migrations_of


class BlockedWriter:
    """Keeps the writer busy with one unit, so that units of work that arrive meanwhile are committed together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entered = threading.Event()
        self._leave = threading.Event()

    async def __aenter__(self) -> None:
        def wait(connection: Connection) -> None:
            self._entered.set()
            self._leave.wait()

        self._unit = asyncio.create_task(self._database.write(wait))
        await asyncio.to_thread(self._entered.wait)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)  # the tasks of the block begin
        self._leave.set()
        await self._unit


def commits_of(engine: Engine) -> list[None]:
    """Return a list that gets an entry with each commit."""
    commits: list[None] = []
    event.listen(engine, "commit", lambda _: commits.append(None))
    return commits


async def test_waiting_units_are_committed_together_in_the_order_of_their_keys(database: Database) -> None:
    order: list[str] = []

    def unit(name: str) -> Callable[[Connection], int]:
        def insert_name(connection: Connection) -> int:
            order.append(name)
            return add_item(connection, name)

        return insert_name

    async with BlockedWriter(database):
        commits = commits_of(database.write_engine)
        tasks = [asyncio.create_task(database.write(unit(name), name)) for name in ("c", "a", "b")]
    assert await asyncio.gather(*tasks) == [1, 1, 1]
    assert order == ["a", "b", "c"]
    assert len(commits) == 2  # that of the gate, and one for three units
    assert await database.read(item_names) == ["a", "b", "c"]


async def test_a_unit_that_fails_takes_no_other_of_its_commit_with_it(database: Database) -> None:
    await database.write(lambda connection: add_item(connection, "there"))

    def fail(connection: Connection) -> None:
        add_item(connection, "half")
        raise NotFound("nothing here")

    async with BlockedWriter(database):
        tasks = [
            asyncio.create_task(database.write(fail)),
            asyncio.create_task(database.write(lambda connection: add_item(connection, "there"))),
            asyncio.create_task(database.write(lambda connection: add_item(connection, "good"))),
        ]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[0], NotFound)
    assert isinstance(outcomes[1], StoreConflict)
    assert outcomes[2] == 1
    assert await database.read(item_names) == ["good", "there"]


async def test_an_error_of_one_unit_reaches_no_other_when_the_transaction_is_lost(database: Database) -> None:
    def fail(connection: Connection) -> None:
        connection.exec_driver_sql("ROLLBACK")  # as a database does that gives up the transaction
        raise NotFound("nothing of this caller's")

    async with BlockedWriter(database):
        tasks = [
            asyncio.create_task(database.write(lambda connection: add_item(connection, "good"), "a")),
            asyncio.create_task(database.write(fail, "b")),
        ]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[1], NotFound)
    assert isinstance(outcomes[0], Internal | StoreUnavailable)
    assert await database.read(item_names) == []
    await database.write(lambda connection: add_item(connection, "good"))


async def test_a_unit_alone_that_fails_leaves_nothing(database: Database) -> None:
    def fail(connection: Connection) -> None:
        add_item(connection, "half")
        raise NotFound("nothing here")

    with pytest.raises(NotFound):
        await database.write(fail)
    assert await database.read(item_names) == []


async def test_a_lost_connection_fails_all_of_a_commit_and_the_next_one_works(
    database: Database,
) -> None:
    if not database.is_postgresql:
        pytest.skip("a file has no connection to lose")

    def kill_connection(connection: Connection) -> None:
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    async with BlockedWriter(database):
        tasks = [
            asyncio.create_task(database.write(lambda connection: add_item(connection, "first"), "a")),
            asyncio.create_task(database.write(kill_connection, "b")),
        ]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[1], StoreUnavailable)
    assert isinstance(outcomes[0], StoreUnavailable)
    await database.write(lambda connection: add_item(connection, "second"))
    assert await database.read(item_names) == ["second"]


async def test_the_callback_runs_after_the_commit_on_the_callers_loop_also_for_one_that_left(
    database: Database,
) -> None:
    called: list[tuple[int, threading.Thread]] = []
    reached = asyncio.Event()

    def on_commit(value: int) -> None:
        called.append((value, threading.current_thread()))
        reached.set()

    async with BlockedWriter(database):
        task = asyncio.create_task(database.write(lambda connection: add_item(connection, "a", 7), "", on_commit))
        await asyncio.sleep(0)
        task.cancel()
    await reached.wait()
    assert called == [(7, threading.current_thread())]
    assert task.cancelled()
    assert await database.read(item_names) == ["a"]


async def test_a_unit_that_fails_has_no_callback(database: Database) -> None:
    called: list[int] = []
    await database.write(lambda connection: add_item(connection, "a"), "", called.append)
    with pytest.raises(StoreConflict):
        await database.write(lambda connection: add_item(connection, "a"), "", called.append)
    assert called == [1]


async def test_close_finishes_accepted_work_and_refuses_more(database_location: str, migrations: Migrations) -> None:
    database = Database(database_location, migrations, service="test", store="test store")
    with pytest.raises(StoreUnavailable, match=r"test store.* is closed"):
        await database.read(item_names)
    await database.open()
    async with BlockedWriter(database):
        tasks = [asyncio.create_task(database.write(partial(add_item, name=str(number)))) for number in range(100)]
        closing = asyncio.create_task(database.close())
    await closing
    assert await asyncio.gather(*tasks) == [1] * 100
    with pytest.raises(StoreUnavailable, match="is closed"):
        await database.write(item_names)
    again = Database(database_location, migrations, service="test", store="test store")
    await again.open()
    assert len(await again.read(item_names)) == 100
    await again.close()


async def test_a_database_that_never_opened_is_closed_without_waiting(tmp_path: Path, migrations: Migrations) -> None:
    await Database(str(tmp_path / "a.db"), migrations, service="test", store="test store").close()


async def test_a_reader_sees_one_state_while_others_write(database: Database) -> None:
    await database.write(lambda connection: add_item(connection, "a"))
    began, go_on = threading.Event(), threading.Event()

    def slow(connection: Connection) -> tuple[list[str], list[str]]:
        before = item_names(connection)
        began.set()
        go_on.wait()
        return before, item_names(connection)

    reading = asyncio.create_task(database.read(slow))
    await asyncio.to_thread(began.wait)
    await database.write(lambda connection: add_item(connection, "b"))
    go_on.set()
    assert await reading == (["a"], ["a"])
    assert await database.read(item_names) == ["a", "b"]


async def test_two_processes_that_lock_the_same_keys_never_deadlock(
    database_location: str, migrations: Migrations
) -> None:
    writers = [Database(database_location, migrations, service="test", store="test store") for _ in range(2)]
    await asyncio.gather(*(writer.open() for writer in writers))
    keys = [f"{number}" for number in range(8)]
    for key in keys:
        await writers[0].write(partial(add_item, name=key))

    def bump(key: str) -> Callable[[Connection], object]:
        return lambda connection: connection.execute(
            text("UPDATE item SET value = value + 1 WHERE name = :name"), {"name": key}
        )

    orders = (keys, keys[::-1])
    units = [writer.write(bump(key), key) for _ in range(10) for n, writer in enumerate(writers) for key in orders[n]]
    await asyncio.gather(*units)
    values = await writers[0].read(
        lambda connection: connection.execute(text("SELECT value FROM item")).scalars().all()
    )
    assert values == [21] * 8
    for writer in writers:
        await writer.close()


async def test_stores_that_share_a_database_have_their_own_migrations_and_one_commit(
    database_location: str, migrations: Migrations, tmp_path: Path
) -> None:
    other = migrations_of(tmp_path / "other", "other_schema_version")
    shared = Database(database_location, migrations, other, service="test", store="test stores")
    await shared.open()
    for version_table in ("test_schema_version", "other_schema_version"):
        applied = select(column(VERSION_COLUMN, Text)).select_from(table(version_table))
        assert await shared.read(lambda connection: connection.scalar(applied)) == "0001"  # noqa: B023
    async with BlockedWriter(shared):
        commits = commits_of(shared.write_engine)
        tasks = [asyncio.create_task(shared.write(partial(add_item, name=name), name)) for name in ("one", "other")]
    await asyncio.gather(*tasks)
    assert len(commits) == 2  # that of the gate, and one for both
    await shared.close()
