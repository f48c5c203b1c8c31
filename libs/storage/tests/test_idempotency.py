"""A mutation with an idempotency key happens once, and repeating it returns the stored response."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import Connection, Engine, event

from chassis.errors import NotFound, RequestIdReused
from hansei.playbook.v1 import playbook_service_pb2 as service
from libs.storage.database import Database
from libs.storage.idempotency import IdempotencyKey, RequestDone, find_scope
from libs.storage.migrations import Migrations
from libs.storage.tests.tables import add_item, item_names, requests

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ID = "0b8f2c1e-7a60-4c9e-9d39-6a1c5a3a9f01"
KEY = IdempotencyKey(ID, "Add", b"digest")


async def add_once(database: Database, key: IdempotencyKey | None, name: str, response: bytes = b"added") -> bytes:
    def add_unless_stored(connection: Connection) -> bytes:
        def add() -> bytes:
            add_item(connection, name)
            return response

        return requests.run_once(connection, key, NOW, add, b"payload")

    return await database.write(add_unless_stored)


def statements_on(engine: Engine) -> list[str]:
    """Return a list that gets the statements that name the table of requests."""
    found: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        if "test_request" in statement:
            found.append(statement.split()[0])

    event.listen(engine, "before_cursor_execute", note)
    return found


async def test_a_repeated_request_gets_the_stored_response_and_changes_nothing(database: Database) -> None:
    assert await add_once(database, KEY, "a", b"first") == b"first"
    assert await add_once(database, KEY, "b", b"second") == b"first"
    assert await database.read(item_names) == ["a"]


@pytest.mark.parametrize(
    ("result", "stored", "decoded"), [(None, b"", None), (False, b"false", False), ((1, 2), b"[1, 2]", [1, 2])]
)
async def test_a_result_is_stored_as_json_and_decoded_for_each_call(
    database: Database, result: object, stored: bytes, decoded: object
) -> None:
    def add(connection: Connection) -> object:
        add_item(connection, "a")
        return result

    assert await requests.write_once(database, KEY, NOW, add) == decoded
    assert await requests.write_once(database, KEY, NOW, add, "a") == decoded
    assert await database.read(lambda connection: requests.find_response(connection, KEY)) == stored
    assert await database.read(item_names) == ["a"]


async def test_without_a_key_the_work_is_done_each_time(database: Database) -> None:
    assert await add_once(database, None, "a") == await add_once(database, None, "b")
    assert await database.read(item_names) == ["a", "b"]


@pytest.mark.parametrize("other", [IdempotencyKey(ID, "Add", b"another"), IdempotencyKey(ID, "Remove", b"digest")])
async def test_an_id_that_was_used_for_another_request_is_refused(database: Database, other: IdempotencyKey) -> None:
    await add_once(database, KEY, "a")
    with pytest.raises(RequestIdReused):
        await add_once(database, other, "b")
    assert await database.read(item_names) == ["a"]


async def test_a_failed_request_is_not_stored_and_may_be_repeated(database: Database) -> None:
    def fail() -> bytes:
        raise NotFound("not there")

    with pytest.raises(NotFound):
        await database.write(lambda connection: requests.run_once(connection, KEY, NOW, fail))
    assert await add_once(database, KEY, "a") == b"added"


async def test_ids_of_different_scopes_are_independent(database: Database) -> None:
    first, two = (IdempotencyKey(ID, "Add", b"digest", scope) for scope in ("one.", "two."))
    await add_once(database, first, "a", b"first")
    assert await add_once(database, two, "b", b"second") == b"second"
    assert await add_once(database, first, "c", b"third") == b"first"


async def test_a_commit_finds_out_by_its_insert_whether_the_request_is_done(database: Database) -> None:
    """The work is done first; nothing of it stays when the request turns out to be done."""

    def insert_and_store(connection: Connection) -> bytes:
        add_item(connection, "a")
        requests.store_response(connection, KEY, b"first", NOW)
        return b"first"

    statements = statements_on(database.write_engine)
    await database.write(insert_and_store)
    assert statements == ["INSERT"]

    def repeat(connection: Connection) -> None:
        add_item(connection, "b")
        requests.store_response(connection, KEY, b"second", NOW)

    with pytest.raises(RequestDone) as caught:
        await database.write(repeat)
    assert caught.value.response == b"first"
    assert await database.read(item_names) == ["a"]


async def test_a_request_reads_its_row_once(database: Database) -> None:
    statements = statements_on(database.write_engine)
    await add_once(database, KEY, "a")
    assert statements == ["SELECT", "INSERT"]
    await add_once(database, KEY, "a")
    assert statements == ["SELECT", "INSERT", "SELECT"]


async def test_of_two_processes_with_one_request_one_does_it(database_location: str, migrations: Migrations) -> None:
    database, other = (Database(database_location, migrations, service="test", store="test store") for _ in range(2))
    await asyncio.gather(database.open(), other.open())
    has_read, go_on = threading.Event(), threading.Event()

    def slow(connection: Connection) -> bytes:
        def add() -> bytes:
            has_read.set()
            go_on.wait()
            add_item(connection, "slow")
            return b"slow"

        return requests.run_once(connection, KEY, NOW, add)

    first = asyncio.create_task(database.write(slow))
    await asyncio.to_thread(has_read.wait)
    second = asyncio.create_task(add_once(other, KEY, "fast", b"fast"))
    if database.is_postgresql:
        assert await second == b"fast"
    go_on.set()
    if database.is_postgresql:
        with pytest.raises(RequestDone) as caught:
            await first
        assert caught.value.response == b"fast"
        assert await database.read(item_names) == ["fast"]
    else:  # SQLite has one writer: the second one waits
        assert await first == await second == b"slow"
        assert await database.read(item_names) == ["slow"]
    await database.close()
    await other.close()


async def test_the_payload_is_stored_with_the_response(database: Database) -> None:
    await add_once(database, KEY, "a")

    async def stored_rows(request_id: str, method: str) -> tuple[bytes, bytes] | None:
        return await database.read(lambda connection: requests.find_request(connection, request_id, method))

    assert await stored_rows(ID.upper(), "Add") == (b"payload", b"added")
    assert await stored_rows(ID, "Remove") is None
    assert await stored_rows("0b8f2c1e-7a60-4c9e-9d39-6a1c5a3a9f02", "Add") is None


async def test_responses_are_deleted_after_an_age(database: Database) -> None:
    await add_once(database, KEY, "a")
    for limit, deleted in ((NOW, 0), (NOW + timedelta(microseconds=1), 1)):
        assert await database.write(partial(requests.delete_older, limit=limit)) == deleted
    assert await add_once(database, KEY, "b", b"second") == b"second"


def test_an_id_is_the_same_in_upper_and_lower_case() -> None:
    lower, upper = (
        IdempotencyKey.for_message(service.SetPolicyRequest(request_id=text, dataset="d"))
        for text in (ID.lower(), ID.upper())
    )
    assert lower == upper
    assert lower.request_id == ID


def test_the_digest_covers_every_field_and_the_method_is_the_messages() -> None:
    keys = [
        IdempotencyKey.for_message(message)
        for message in (
            service.SetPolicyRequest(request_id=ID, dataset="d"),
            service.SetPolicyRequest(request_id=ID, dataset="e"),
            service.RevokeTrajectoryRequest(request_id=ID, dataset="d"),
        )
    ]
    assert [key.method for key in keys] == ["SetPolicy", "SetPolicy", "RevokeTrajectory"]
    assert keys[0].digest != keys[1].digest


@pytest.mark.parametrize(
    ("name", "scope"), [("acme--d", "acme--"), ("acme--d--e", "acme--"), ("acme-d", ""), ("d", ""), ("", "")]
)
def test_the_scope_of_a_resource_is_the_prefix_of_its_tenant(name: str, scope: str) -> None:
    assert find_scope(name) == scope
