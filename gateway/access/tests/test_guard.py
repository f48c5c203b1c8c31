"""Authorization of a principal: scopes, authors, limits, and audit records."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from chassis.errors import HanseiError, NotFound, PermissionDenied, ResourceExhausted
from gateway.access.domain.errors import CredentialRevoked, ScopeMissing
from gateway.access.domain.principal import SYSTEM, Principal
from gateway.access.domain.tenant_shares import PAUSE_SECONDS
from gateway.access.tests.access_system import ACME, BOOKS, EVERYTHING, SEARCH, call_guarded, open_access
from gateway.tests.scripted_http import Peers, client_of
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.search.v1 import search_service_pb2 as search


@pytest.mark.parametrize(
    ("method", "scopes", "admitted"),
    [
        ("GetPlaybook", {"read"}, True),
        ("GetPlaybook", {"learn"}, False),
        ("GetPlaybook", {"admin"}, True),
        ("ApplyDeltas", {"read"}, False),
        ("ApplyDeltas", {"learn"}, True),
        ("DecidePendingChanges", {"read", "learn"}, False),
        ("DecidePendingChanges", {"review"}, True),
        ("SetPolicy", {"read", "learn", "review"}, False),
        ("GetPlaybook", {"READ", "read ", "*", "root"}, False),
        ("GetPlaybook", set(), False),
    ],
)
async def test_a_method_needs_its_scope(tmp_path: Path, method: str, scopes: set[str], admitted: bool) -> None:
    async with open_access(tmp_path) as system:
        who = Principal("ann", "acme", frozenset(scopes))
        request = playbook.GetPlaybookRequest(dataset="acme--d")
        if admitted:
            await call_guarded(system, BOOKS + method, who, request)
        else:
            with pytest.raises(ScopeMissing):
                await call_guarded(system, BOOKS + method, who, request)


async def test_methods_that_concern_all_tenants_are_for_the_operator(tmp_path: Path) -> None:
    feedback = "/hansei.planner.v1.PlannerService/SubmitFeedback"
    async with open_access(tmp_path) as system:
        with pytest.raises(PermissionDenied) as caught:
            await call_guarded(system, feedback, ACME, b"")
        await call_guarded(system, feedback, EVERYTHING, b"")
    assert caught.value.reason == "OPERATOR_ONLY"


async def test_the_author_of_a_change_is_its_caller(tmp_path: Path) -> None:
    """Trust in a source depends on its author, so a key for learning must not choose one."""
    learner = Principal("ci.1", "acme", frozenset({"learn"}))
    async with open_access(tmp_path) as system:

        async def author(who: Principal, name: str) -> str:
            request = playbook.ApplyDeltasRequest(dataset="acme--d", author=name)
            read = await call_guarded(system, BOOKS + "ApplyDeltas", who, request.SerializeToString())
            return playbook.ApplyDeltasRequest.FromString(read).author

        assert [await author(learner, ""), await author(learner, "ci.1")] == ["ci.1", "ci.1"]
        assert await author(ACME, "bob") == "bob"
        with pytest.raises(PermissionDenied, match="author 'bob' is not you"):
            await author(learner, "bob")


async def test_each_change_has_an_audit_record_with_its_outcome(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        await call_guarded(system, BOOKS + "ApplyDeltas", ACME, playbook.ApplyDeltasRequest(dataset="acme--d"))
        await call_guarded(system, BOOKS + "GetPlaybook", ACME, playbook.GetPlaybookRequest(dataset="acme--d"))
        with pytest.raises(NotFound):
            await call_guarded(
                system, BOOKS + "RestoreRevision", ACME, playbook.RestoreRevisionRequest(dataset="evil--d")
            )
        await call_guarded(system, BOOKS + "ApplyDeltas", EVERYTHING, playbook.ApplyDeltasRequest(dataset="d"))
        await call_guarded(system, BOOKS + "ApplyDeltas", SYSTEM, playbook.ApplyDeltasRequest(dataset="d"))
        everything = [record for _, record in await system.access.repository.list_records("", None, 10)]
        own = [record for _, record in await system.access.repository.list_records("acme", None, 10)]
    assert [
        (record.principal, record.method.rpartition("/")[2], record.names, record.code) for record in everything
    ] == [
        ("root", "ApplyDeltas", ("d",), "OK"),
        ("ann", "RestoreRevision", (), "NOT_FOUND"),
        ("ann", "ApplyDeltas", ("acme--d",), "OK"),
    ]
    assert own == everything[1:]


async def test_an_audit_record_does_not_grow_with_the_names_in_it(tmp_path: Path) -> None:
    names = ["acme--" + "x" * 100_000, *(f"acme--{n}" for n in range(100))]
    async with open_access(tmp_path) as system:
        request = playbook.MergePlaybooksRequest(dataset="acme--d", from_datasets=names)
        await call_guarded(system, BOOKS + "MergePlaybooks", ACME, request)
        ((_, record),) = await system.access.repository.list_records("", None, 10)
    assert (len(record.names), max(map(len, record.names))) == (20, 200)


async def test_calls_per_second_are_limited_with_a_retry_delay(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        who = await system.guard.authenticate(await system.key("acme", "read", calls_per_second=2))
        for _ in range(2):
            await call_guarded(system, SEARCH, who, search.SearchRequest(dataset="acme--d"))
        with pytest.raises(ResourceExhausted) as caught:
            await call_guarded(system, SEARCH, who, search.SearchRequest(dataset="acme--d"))
        assert (caught.value.reason, caught.value.retry_after) == ("RATE_EXCEEDED", 0.5)
        system.clock.move(0.5)
        await call_guarded(system, SEARCH, who, search.SearchRequest(dataset="acme--d"))


async def test_calls_per_day_are_counted_over_all_gateways(tmp_path: Path) -> None:
    async with open_access(tmp_path) as first, open_access(tmp_path) as second:
        credential = await first.key("acme", "read", calls_per_day=3)
        request = search.SearchRequest(dataset="acme--d")
        for _ in range(2):
            await call_guarded(first, SEARCH, await first.guard.authenticate(credential), request)
        await call_guarded(second, SEARCH, await second.guard.authenticate(credential), request)
        for system in (first, second, first):
            await system.access.synchronization.synchronize()
        for system in (first, second):
            with pytest.raises(ResourceExhausted) as caught:
                await call_guarded(system, SEARCH, await system.guard.authenticate(credential), request)
            assert caught.value.reason == "QUOTA_EXCEEDED"
            assert 0 < (caught.value.retry_after or 0) <= 86_400
        first.clock.move(86_400)
        await call_guarded(first, SEARCH, await first.guard.authenticate(credential), request)


@pytest.mark.parametrize("table", ["access_key", "access_call_count"])
async def test_counts_and_last_uses_survive_an_outage_of_the_database(tmp_path: Path, table: str) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'gateway.db'}")
    async with open_access(tmp_path) as first, open_access(tmp_path) as second:
        credential = await first.key("acme", "read", calls_per_day=1)
        request = search.SearchRequest(dataset="acme--d")
        await call_guarded(first, SEARCH, await first.guard.authenticate(credential), request)
        used_at = first.clock.now()
        with engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE {table} RENAME TO gone"))
        with pytest.raises(HanseiError):
            await first.access.synchronization.synchronize()
        with engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE gone RENAME TO {table}"))
        for system in (first, second):
            await system.access.synchronization.synchronize()
        with pytest.raises(ResourceExhausted, match="1 calls a day"):
            await call_guarded(second, SEARCH, await second.guard.authenticate(credential), request)
        (key,) = await second.access.repository.list_keys("acme", "", 10)
        assert key.last_used_at == used_at


@pytest.mark.parametrize("ends", ["revoked", "expired"])
async def test_a_call_in_progress_ends_with_its_credential(tmp_path: Path, ends: str) -> None:
    async with open_access(tmp_path) as system:
        who = await system.guard.authenticate(await system.key("acme", "read", seconds=60))
        other = await system.guard.authenticate(await system.key("acme", "read"))
        watching, begun = [], asyncio.Semaphore(0)

        async def watch(caller: Principal) -> None:
            async with system.guard.authorize(BOOKS + "WatchPlaybook", caller):
                begun.release()
                await asyncio.Event().wait()

        watching = [asyncio.create_task(watch(caller)) for caller in (who, other)]
        await begun.acquire()
        await begun.acquire()
        if ends == "revoked":
            await system.access.keys.revoke_key(who.key_id, "")
        else:
            system.clock.move(60)
        await system.access.synchronization.synchronize()
        with pytest.raises(CredentialRevoked):
            await watching[0]
        assert not watching[1].done()
        watching[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching[1]


async def test_the_same_rules_apply_over_http(tmp_path: Path) -> None:
    peers = Peers()
    async with open_access(tmp_path) as system, client_of(peers, guard=system.guard) as client:
        reader = {"Authorization": await system.key("acme", "read", calls_per_second=4)}
        own = await client.get("/v1/playbooks/acme--d", headers=reader)
        foreign = await client.get("/v1/playbooks/evil--d", headers=reader)
        change = await client.post("/v1/playbooks/acme--d/revoke", headers=reader, json={"request_id": "x" * 36})
        watch = await client.get("/v1/playbooks/evil--d/events", headers={**reader, "Last-Event-ID": "3"})
        answer = await client.post("/workflow/run", headers=reader, json={"query": "q", "dataset": "evil--d"})
        nobody = await client.get("/v1/playbooks/acme--d")
    assert own.status_code == 200
    assert (foreign.status_code, foreign.json()["reason"]) == (404, "NOT_FOUND")
    assert change.status_code == 400  # validation refuses it first; it never reached a handler
    assert (watch.status_code, watch.json()["reason"]) == (404, "NOT_FOUND")
    assert (answer.status_code, answer.json()) == (404, {"detail": "no dataset 'evil--d'"})
    assert (nobody.status_code, nobody.json()) == (401, {"error": "Unauthorized"})  # G-30
    assert [request.dataset for request in peers.requests] == ["acme--d"]


async def test_over_http_a_refusal_has_a_retry_delay(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system, client_of(Peers(), guard=system.guard) as client:
        reader = {"Authorization": await system.key("acme", "read", calls_per_second=1)}
        allowed = await client.get("/v1/playbooks/acme--d", headers=reader)
        refused = await client.get("/v1/playbooks/acme--d", headers=reader)
        scope = await client.post(
            "/v1/playbooks/acme--d/restore", headers=reader, json={"request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e02"}
        )
    assert (allowed.status_code, refused.status_code, refused.headers["Retry-After"]) == (200, 429, "1")
    assert (scope.status_code, scope.json()["reason"]) == (429, "RATE_EXCEEDED")


async def test_a_flood_of_one_tenant_leaves_capacity_for_the_other(tmp_path: Path) -> None:
    evil = Principal("eve", "evil", frozenset({"admin"}))
    ends, running = asyncio.Event(), 0
    async with open_access(tmp_path, auth_tenant_calls=2) as system:

        async def search() -> None:
            nonlocal running
            async with system.guard.authorize(SEARCH, evil):
                running += 1
                await ends.wait()

        await call_guarded(system, SEARCH, ACME, search_request())
        calls = [asyncio.create_task(search()) for _ in range(10)]
        async with asyncio.timeout(5):
            while running < 2:
                system.clock.move(PAUSE_SECONDS)
                await asyncio.sleep(PAUSE_SECONDS)
            await call_guarded(system, SEARCH, ACME, search_request())
            assert running == 2
            ends.set()
            while running < 10:
                system.clock.move(PAUSE_SECONDS)
                await asyncio.sleep(PAUSE_SECONDS)
        await asyncio.gather(*calls)


def search_request() -> search.SearchRequest:
    return search.SearchRequest(dataset="acme--d")
