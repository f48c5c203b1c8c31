"""Keys, owners, use and deeds on SQLite and on PostgreSQL: gateways on one database, and a database that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from chassis.errors import NotFound, ResourceExhausted
from gateway.access.errors import CredentialInvalid
from gateway.access.guard import Deed
from gateway.access.store import AccessUnavailable
from gateway.tests.entrance import Entrance, entrance
from tests.behaviour.postgres_server import PostgresServer

BOOKS = "/hansei.playbook.v1.PlaybookService/GetPlaybook"


@pytest.fixture
async def gateways(place: str) -> AsyncIterator[list[Entrance]]:
    """Two gateways that start at once on one database."""
    async with AsyncExitStack() as stack:
        opening = (stack.enter_async_context(entrance(place)) for _ in range(2))
        yield list(await asyncio.gather(*opening))


async def test_a_key_made_here_opens_there_until_it_is_revoked(gateways: list[Entrance]) -> None:
    here, there = gateways
    credential = await here.key("acme", "read", "learn", seconds=60, calls_per_second=2.5, calls_per_day=7)
    who = await there.guard.authenticate(credential)
    assert (who.tenant, who.scopes) == ("acme", {"read", "learn"})
    assert (who.allowance.calls_per_second, who.allowance.calls_per_day) == (2.5, 7)
    assert who.expires_at == here.clock.now() + timedelta(seconds=60)
    with pytest.raises(CredentialInvalid):
        await there.guard.authenticate(credential[:-1] + ("A" if credential[-1] != "A" else "B"))
    with pytest.raises(NotFound):
        await here.access.keys.revoke(who.key_id, "evil")
    revoked_at = here.clock.now()
    assert (await here.access.keys.revoke(who.key_id, "acme")).revoked_at == revoked_at
    here.clock.move(1)
    await here.access.keys.revoke(who.key_id, "acme")  # it stays as it is
    (kept,) = await there.access.store.keys("acme", "", 10)
    assert kept.revoked_at == revoked_at
    there.clock.move(5)  # what it knows is not fresh any more
    with pytest.raises(CredentialInvalid):
        await there.guard.authenticate(credential)


async def test_keys_are_listed_page_by_page_and_by_tenant(gateways: list[Entrance]) -> None:
    here, there = gateways
    for tenant in ("acme", "evil", "acme", ""):
        await here.key(tenant, "read")
    everything = await there.access.store.keys("", "", 10)
    assert [key.id for key in everything] == sorted(key.id for key in everything)
    assert sorted(key.tenant for key in everything) == ["", "acme", "acme", "evil"]
    acme = [key.id for key in everything if key.tenant == "acme"]
    assert [key.id for key in await there.access.store.keys("acme", "", 1)] == acme[:1]
    assert [key.id for key in await there.access.store.keys("acme", acme[0], 10)] == acme[1:]


async def test_the_last_use_of_a_key_is_written_down(gateways: list[Entrance]) -> None:
    here, there = gateways
    await here.guard.authenticate(await here.key("acme", "read"))
    used_at = here.clock.now()
    await here.access.sweep()
    (key,) = await there.access.store.keys("acme", "", 10)
    assert key.last_used_at == used_at


async def test_calls_of_a_day_are_added_up_over_both(gateways: list[Entrance]) -> None:
    credential = await gateways[0].key("acme", "read", calls_per_day=4)
    for entry in gateways * 2:
        who = await entry.guard.authenticate(credential)
        async with entry.guard.admitted(BOOKS, who):
            pass
    await asyncio.gather(*(entry.access.sweep() for entry in gateways))
    for entry in gateways:
        await entry.access.sweep()
        with pytest.raises(ResourceExhausted):
            async with entry.guard.admitted(BOOKS, await entry.guard.authenticate(credential)):
                pass


async def test_counts_of_long_ago_go(gateways: list[Entrance]) -> None:
    here, there = (entry.access.store for entry in gateways)
    assert await here.count("2026-05-01", {"ann": 2}) == {"ann": 2}
    assert await there.count("2026-05-01", {"ann": 3, "bob": 1}) == {"ann": 5, "bob": 1}
    await here.count("2026-06-10", {})
    assert await there.count("2026-05-01", {}) == {"ann": 5, "bob": 1}
    await here.count("2026-06-11", {})
    assert await there.count("2026-05-01", {}) == {}


async def test_of_racing_claims_the_first_stays(gateways: list[Entrance]) -> None:
    stores = [entry.access.store for entry in gateways]
    tenants = [f"t{n}" for n in range(20)]
    await asyncio.gather(*(stores[n % 2].claim("job", "j-1", tenant) for n, tenant in enumerate(tenants)))
    owner = await stores[0].owner("job", "j-1")
    assert owner in tenants
    await stores[1].claim("job", "j-1", "late")
    assert [await store.owner("job", "j-1") for store in stores] == [owner, owner]
    assert await stores[0].owner("job", "j-2") is None
    assert await stores[0].owner("other", "j-1") is None


async def test_deeds_are_kept_in_their_order_and_told_by_tenant(gateways: list[Entrance]) -> None:
    here, there = (entry.access.store for entry in gateways)
    at = gateways[0].clock.now()
    first = Deed(at, "oidc:" + "あ" * 195, "acme", "hansei.x/Y", ("acme--d", 'a"\\\x00 🏆'), "r" * 128, "OK")
    second = replace(first, tenant="evil", code="RESOURCE_EXHAUSTED", names=())
    third = replace(first, who="ann")
    await here.record(first)
    await there.record(second)
    await here.record(third)
    everything = await there.deeds("", None, 10)
    assert [deed for _, deed in everything] == [third, second, first]
    assert [deed for _, deed in await here.deeds("acme", None, 10)] == [third, first]
    assert [deed for _, deed in await here.deeds("", everything[0][0], 1)] == [second]


async def test_a_server_that_goes_away_lets_nobody_in_and_comes_back(lone_postgres: PostgresServer) -> None:
    async with entrance(lone_postgres.database("away")) as entry:
        credential = await entry.key("acme", "read")
        lone_postgres.stop()
        try:
            with pytest.raises(AccessUnavailable, match="the database of the keys") as caught:
                await entry.guard.authenticate(credential)
        finally:
            lone_postgres.start()
        assert "SELECT" not in str(caught.value)
        assert (await entry.guard.authenticate(credential)).tenant == "acme"
