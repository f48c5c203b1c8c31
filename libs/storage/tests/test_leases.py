"""A lease has one holder at a time; an older one can be told by its fencing token; dead ones are found by silence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Connection, insert, select, update

from libs.storage.database import Database
from libs.storage.leases import HeldLease, Lease, LeaseMonitor, LeaseState
from libs.storage.tests.tables import leases, worker

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def a_free_row(database: Database, name: str = "w") -> LeaseState:
    await database.write(lambda connection: connection.execute(insert(worker), {"name": name, "fence": 0}))
    return await state_of(database, name)


async def state_of(database: Database, name: str = "w") -> LeaseState:
    return (await database.read(lambda connection: leases.list_states(connection, worker.c.name == name)))[0]


async def acquire(database: Database, seen: LeaseState, owner: str) -> Lease | None:
    return await database.write(lambda connection: leases.acquire(connection, seen, owner, NOW))


async def renew(database: Database, lease: Lease, now: datetime = NOW) -> bool:
    return lease.name in await database.write(lambda connection: leases.renew(connection, [lease], now))


async def test_of_observers_of_the_same_state_one_gets_the_lease(database: Database) -> None:
    free = await a_free_row(database)
    assert await acquire(database, free, "one") == Lease("w", "one", 1)
    assert await acquire(database, free, "two") is None
    assert await acquire(database, await state_of(database), "two") == Lease("w", "two", 2)


async def test_a_holder_that_renewed_meanwhile_keeps_its_lease(database: Database) -> None:
    lease = await acquire(database, await a_free_row(database), "one")
    assert lease is not None
    seen = await state_of(database)
    assert await renew(database, lease)
    assert await acquire(database, seen, "two") is None
    assert await renew(database, lease)


async def test_an_older_holder_can_neither_renew_nor_write_nor_release(database: Database) -> None:
    old = await acquire(database, await a_free_row(database), "one")
    new = await acquire(database, await state_of(database), "one")  # the same owner, started again
    assert old is not None
    assert new is not None

    async def write_value(lease: Lease) -> int:
        def write_if_held(connection: Connection) -> int:
            guarded = update(worker).where(leases.is_held(lease)).values(state=f"by {lease.fence}")
            return connection.execute(guarded).rowcount

        return await database.write(write_if_held)

    assert not await renew(database, old)
    assert (await write_value(old), await write_value(new)) == (0, 1)
    await database.write(lambda connection: leases.release(connection, old))
    assert (await state_of(database)).owner == "one"
    await database.write(lambda connection: leases.release(connection, new))
    assert await state_of(database) == LeaseState("w", None, 2, None)


async def test_each_renewal_is_another_heartbeat_also_when_the_clock_goes_back(database: Database) -> None:
    lease = await acquire(database, await a_free_row(database), "one")
    assert lease is not None
    seen = [(await state_of(database)).heartbeat]
    for now in (NOW, NOW - timedelta(hours=1), NOW + timedelta(days=400), NOW):
        await renew(database, lease, now)
        seen.append((await state_of(database)).heartbeat)
    assert len(set(seen)) == len(seen)


async def test_a_renewal_returns_columns_of_the_rows_that_are_held(database: Database) -> None:
    lease = await acquire(database, await a_free_row(database), "one")
    assert lease is not None
    await database.write(lambda connection: connection.execute(update(worker).values(state="busy")))
    lost = Lease("w", "two", 9)
    rows = await database.write(lambda connection: leases.renew(connection, [lease, lost], NOW, "state"))
    assert {name: row.state for name, row in rows.items()} == {"w": "busy"}


async def test_registering_takes_the_lease_from_any_holder(database: Database) -> None:
    async def register(owner: str) -> Lease:
        return await database.write(lambda connection: leases.take_by_force(connection, "w", owner, NOW))

    assert await register("one") == Lease("w", "one", 1)
    before = await state_of(database)
    assert await register("two") == Lease("w", "two", 2)
    await database.write(lambda connection: leases.delete(connection, before))
    after = await state_of(database)
    assert after.owner == "two"
    await database.write(lambda connection: leases.delete(connection, after))
    assert await database.read(lambda connection: connection.execute(select(worker)).all()) == []


async def test_states_come_free_ones_first_then_those_not_renewed_for_longest(database: Database) -> None:
    for name, now in (("b", NOW + timedelta(seconds=1)), ("c", NOW), ("d", NOW + timedelta(seconds=2))):
        await database.write(partial(leases.take_by_force, name=name, owner="one", now=now))
    await a_free_row(database, "e")
    states = await database.read(lambda connection: leases.list_states(connection, limit=3))
    assert [state.name for state in states] == ["e", "c", "b"]


def is_held_by(name: str, heartbeat: int) -> LeaseState:
    return LeaseState(name, "one", 1, heartbeat)


def test_a_lease_that_is_renewed_is_never_takeable() -> None:
    clock = Clock()
    monitor = LeaseMonitor(10, clock)
    for heartbeat in range(5):
        assert monitor.find_free_leases([is_held_by("w", heartbeat)]) == []
        clock.now += 9.9


def test_a_lease_is_takeable_once_its_heartbeat_was_the_same_for_its_time() -> None:
    clock = Clock()
    monitor = LeaseMonitor(10, clock)
    assert monitor.find_free_leases([is_held_by("a", 1), is_held_by("b", 1)]) == []
    clock.now += 5
    assert monitor.find_free_leases([is_held_by("a", 1), is_held_by("b", 2)]) == []
    clock.now += 5
    assert monitor.find_free_leases([is_held_by("a", 1), is_held_by("b", 2)]) == [is_held_by("a", 1)]
    clock.now += 5
    assert monitor.find_free_leases([is_held_by("a", 1), is_held_by("b", 2)]) == [
        is_held_by("a", 1),
        is_held_by("b", 2),
    ]


def test_a_free_lease_can_be_taken_at_once_and_a_released_one_starts_again() -> None:
    clock = Clock()
    monitor = LeaseMonitor(10, clock)
    free = LeaseState("w", None, 3, None)
    assert monitor.find_free_leases([free, is_held_by("v", 1)]) == [free]
    clock.now += 5
    assert monitor.find_free_leases([]) == []
    clock.now += 5
    assert monitor.find_free_leases([is_held_by("v", 1)]) == []


def test_a_holder_stops_by_itself_when_it_could_not_renew() -> None:
    clock = Clock()
    lease = HeldLease(Lease("w", "one", 1), clock(), 10, clock)
    clock.now += 9.9
    assert lease.is_valid()
    clock.now += 0.1
    assert not lease.is_valid()
    lease.renewed_at = clock()
    assert lease.is_valid()
