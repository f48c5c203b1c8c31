"""Keys, owners, counts and audit records on both databases: gateways on one, and a database that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from chassis.errors import NotFound, ResourceExhausted
from gateway.access.domain.audit import AuditRecord
from gateway.access.domain.errors import CredentialInvalid
from gateway.access.tests.access_system import AccessSystem, open_access
from libs.storage.errors import StoreUnavailable
from tests.support.postgres_server import PostgresServer

BOOKS = "/hansei.playbook.v1.PlaybookService/GetPlaybook"


@pytest.fixture
async def gateways(database_location: str) -> AsyncIterator[list[AccessSystem]]:
    """Yield two gateways that start at once on one database."""
    async with AsyncExitStack() as stack:
        opening = (stack.enter_async_context(open_access(database_location)) for _ in range(2))
        yield list(await asyncio.gather(*opening))


async def test_a_key_of_one_gateway_is_valid_at_another_until_it_is_revoked(gateways: list[AccessSystem]) -> None:
    here, there = gateways
    credential = await here.key("acme", "read", "learn", seconds=60, calls_per_second=2.5, calls_per_day=7)
    who = await there.guard.authenticate(credential)
    assert (who.tenant, who.scopes) == ("acme", {"read", "learn"})
    assert (who.allowance.calls_per_second, who.allowance.calls_per_day) == (2.5, 7)
    assert who.expires_at == here.clock.now() + timedelta(seconds=60)
    with pytest.raises(CredentialInvalid):
        await there.guard.authenticate(credential[:-1] + ("A" if credential[-1] != "A" else "B"))
    with pytest.raises(NotFound):
        await here.access.keys.revoke_key(who.key_id, "evil")
    revoked_at = here.clock.now()
    assert (await here.access.keys.revoke_key(who.key_id, "acme")).revoked_at == revoked_at
    here.clock.move(1)
    await here.access.keys.revoke_key(who.key_id, "acme")  # it stays as it is
    (listed_key,) = await there.access.repository.list_keys("acme", "", 10)
    assert listed_key.revoked_at == revoked_at
    there.clock.move(5)  # its cached keys are stale
    with pytest.raises(CredentialInvalid):
        await there.guard.authenticate(credential)


async def test_keys_are_listed_page_by_page_and_by_tenant(gateways: list[AccessSystem]) -> None:
    here, there = gateways
    for tenant in ("acme", "evil", "acme", ""):
        await here.key(tenant, "read")
    everything = await there.access.repository.list_keys("", "", 10)
    assert [key.id for key in everything] == sorted(key.id for key in everything)
    assert sorted(key.tenant for key in everything) == ["", "acme", "acme", "evil"]
    acme = [key.id for key in everything if key.tenant == "acme"]
    assert [key.id for key in await there.access.repository.list_keys("acme", "", 1)] == acme[:1]
    assert [key.id for key in await there.access.repository.list_keys("acme", acme[0], 10)] == acme[1:]


async def test_the_last_use_of_a_key_is_stored(gateways: list[AccessSystem]) -> None:
    here, there = gateways
    await here.guard.authenticate(await here.key("acme", "read"))
    used_at = here.clock.now()
    await here.access.synchronization.synchronize()
    (key,) = await there.access.repository.list_keys("acme", "", 10)
    assert key.last_used_at == used_at


async def test_calls_of_a_day_are_added_up_over_both(gateways: list[AccessSystem]) -> None:
    credential = await gateways[0].key("acme", "read", calls_per_day=4)
    for system in gateways * 2:
        who = await system.guard.authenticate(credential)
        async with system.guard.authorize(BOOKS, who):
            pass
    await asyncio.gather(*(system.access.synchronization.synchronize() for system in gateways))
    for system in gateways:
        await system.access.synchronization.synchronize()
        with pytest.raises(ResourceExhausted):
            async with system.guard.authorize(BOOKS, await system.guard.authenticate(credential)):
                pass


async def test_old_counts_of_calls_are_deleted(gateways: list[AccessSystem]) -> None:
    here, there = (system.access.repository for system in gateways)
    assert await here.add_calls("2026-05-01", {"ann": 2}) == {"ann": 2}
    assert await there.add_calls("2026-05-01", {"ann": 3, "bob": 1}) == {"ann": 5, "bob": 1}
    await here.add_calls("2026-06-10", {})
    assert await there.add_calls("2026-05-01", {}) == {"ann": 5, "bob": 1}
    await here.add_calls("2026-06-11", {})
    assert await there.add_calls("2026-05-01", {}) == {}


async def test_the_first_of_concurrent_claims_wins(gateways: list[AccessSystem]) -> None:
    stores = [system.access.repository for system in gateways]
    tenants = [f"t{n}" for n in range(20)]
    await asyncio.gather(*(stores[n % 2].add_owner("job", "j-1", tenant) for n, tenant in enumerate(tenants)))
    owner = await stores[0].find_owner("job", "j-1")
    assert owner in tenants
    await stores[1].add_owner("job", "j-1", "late")
    assert [await store.find_owner("job", "j-1") for store in stores] == [owner, owner]
    assert await stores[0].find_owner("job", "j-2") is None
    assert await stores[0].find_owner("other", "j-1") is None


async def test_audit_records_are_listed_newest_first_by_tenant(gateways: list[AccessSystem]) -> None:
    here, there = (system.access.repository for system in gateways)
    at = gateways[0].clock.now()
    first = AuditRecord(
        at, "oidc:" + "あ" * 195, "acme", "hansei.x/Y", ("acme--d", 'a"\\\x00 🏆'), "c" * 128, "r" * 36, "OK"
    )
    second = replace(first, tenant="evil", code="RESOURCE_EXHAUSTED", names=())
    third = replace(first, principal="ann")
    await here.add_record(first)
    await there.add_record(second)
    await here.add_record(third)
    everything = await there.list_records("", None, 10)
    assert [record for _, record in everything] == [third, second, first]
    assert [record for _, record in await here.list_records("acme", None, 10)] == [third, first]
    assert [record for _, record in await here.list_records("", everything[0][0], 1)] == [second]


async def test_a_restarting_database_server_admits_no_caller(lone_postgres: PostgresServer) -> None:
    async with open_access(lone_postgres.database("away")) as system:
        credential = await system.key("acme", "read")
        lone_postgres.stop()
        try:
            with pytest.raises(StoreUnavailable, match="access store") as caught:
                await system.guard.authenticate(credential)
        finally:
            lone_postgres.start()
        assert "SELECT" not in str(caught.value)
        assert (await system.guard.authenticate(credential)).tenant == "acme"
