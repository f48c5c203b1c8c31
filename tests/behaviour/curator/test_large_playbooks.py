"""After every write that the store accepts, every read succeeds, however large the texts are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chassis.errors import InvalidArgument
from hansei.curator.v1 import curator_service_pb2_grpc as curator_grpc
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import playbook_service_pb2_grpc as playbook_grpc
from hansei.playbook.v1 import review_pb2
from hansei.search.v1 import search_pb2
from hansei.search.v1 import search_service_pb2 as search_service_pb
from hansei.search.v1 import search_service_pb2_grpc as search_grpc
from tests.support.campaigns import campaign_size
from tests.support.curator_and_search import curate_request, curator_and_search
from tests.support.playbook_client import add, apply, curator, delete, export_file, new_id, update

if TYPE_CHECKING:
    from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceAsyncStub as Stub

SMALL = 1024 * 1024
"""The smallest size of messages that a service can be configured with."""
TEXT = 17_000
WIDE = "\U00020000"
"""A character that takes four bytes in UTF-8."""
MANY, MESSAGE_BYTES = campaign_size((800, 16 * SMALL), (200, 4 * SMALL))
"""Lessons that fit a message together, but not with the texts that replace them."""
EXAMPLES = campaign_size(60, 12)


def large_text(number: int, size: int = TEXT, first: str = "a") -> str:
    """Return a text of this many characters, most of them one of the 26 from `first` on."""
    return f"lesson {number} ".ljust(size, chr(ord(first) + number % 26))


async def pages(method: Any, request: Any, field: str) -> list[Any]:
    """Return the elements of all pages, with the last response."""
    found: list[Any] = []
    while True:
        response = await method(request)
        found += getattr(response, field)
        if not response.next_page_token:
            return found
        request.page_token = response.next_page_token


async def read_playbook(stub: Stub, **at: Any) -> list[pb.Bullet]:
    """Return the bullets of all pages of GetPlaybook."""
    request = service_pb.GetPlaybookRequest(dataset="d", allow_missing=True, **at)
    bullets: list[pb.Bullet] = []
    while True:
        response = await stub.GetPlaybook(request)
        bullets += response.playbook.bullets
        if not response.next_page_token:
            return bullets
        request.page_token = response.next_page_token


async def follow(stub: Stub, head: int, *, snapshot: bool) -> list[str]:
    """Return the texts of the bullets that a follower has when it has reached revision `head`."""
    request = service_pb.WatchPlaybookRequest(dataset="d", snapshot=snapshot, allow_missing=True)
    texts: dict[str, str] = {}
    parts: list[pb.Bullet] = []
    async with aclosing(stub.WatchPlaybook(request)) as events:  # type: ignore[type-var]
        async for event in events:
            reached = -1
            if event.HasField("snapshot"):
                parts += event.snapshot.playbook.bullets
                if event.snapshot.last:
                    texts, parts = {bullet.id: bullet.content for bullet in parts}, []
                    reached = event.snapshot.playbook.revision
            elif event.HasField("revision"):
                assert not event.revision.HasField("omitted")
                for change in event.revision.changes:
                    texts.pop(change.bullet_id, None)
                    if change.HasField("after"):
                        texts[change.bullet_id] = change.after.content
                reached = event.revision.revision
            if reached >= head:
                return sorted(texts.values())
    raise AssertionError("the feed ended")


async def read_all(stub: Stub) -> None:
    """Call every reading method, and compare the bullets in their responses."""
    bullets = await read_playbook(stub)
    summary = await stub.GetDataset(service_pb.GetDatasetRequest(dataset="d", allow_missing=True))
    head = summary.dataset.revision
    if not head:
        return
    texts = sorted(bullet.content for bullet in bullets)
    listed = await pages(stub.ListBullets, service_pb.ListBulletsRequest(dataset="d", page_size=1000), "bullets")
    assert listed == bullets
    history = await pages(stub.GetHistory, service_pb.GetHistoryRequest(dataset="d", page_size=1000), "revisions")
    assert [revision.revision for revision in history] == list(range(head, 0, -1))
    for low in {0, head - 1}:
        request = service_pb.DiffRevisionsRequest(dataset="d", from_revision=low)
        changes = await pages(stub.DiffRevisions, request, "changes")
        before = {bullet.id: bullet.content for bullet in (await read_playbook(stub, revision=low) if low else [])}
        for change in changes:
            before.pop(change.bullet_id, None)
            if change.HasField("after"):
                before[change.bullet_id] = change.after.content
        assert sorted(before.values()) == texts
    for bullet in bullets[:2]:
        bullet_request = service_pb.GetBulletHistoryRequest(dataset="d", bullet_id=bullet.id)
        assert await pages(stub.GetBulletHistory, bullet_request, "revisions")
    await pages(stub.ListPendingChanges, service_pb.ListPendingChangesRequest(dataset="d", page_size=1000), "changes")
    assert await follow(stub, head, snapshot=False) == texts
    assert await follow(stub, head, snapshot=True) == texts
    exported = await export_file(stub, service_pb.PLAYBOOK_FORMAT_JSON)
    assert exported.count(b'"content"') == len(texts)


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[Stub]:
    async with curator(tmp_path, MESSAGE_BYTES) as stub:
        yield stub


async def test_hundreds_of_long_lessons_in_one_request_can_be_read(stub: Stub) -> None:
    await apply(stub, *(add(large_text(number)) for number in range(MANY)))
    await read_all(stub)
    ids = [bullet.id for bullet in await read_playbook(stub)]
    await apply(stub, *(update(bullet_id, f"short {bullet_id}") for bullet_id in ids))
    await read_all(stub)
    restored = await stub.RestoreRevision(
        service_pb.RestoreRevisionRequest(request_id=new_id(), dataset="d", revision=1)
    )
    assert restored.omitted_changes + len(restored.changes) == MANY
    assert restored.omitted_changes > 0
    assert sorted(bullet.content for bullet in await read_playbook(stub)) == sorted(map(large_text, range(MANY)))
    await read_all(stub)


async def test_a_dataset_of_long_lessons_learns_and_is_searched(tmp_path: Path) -> None:
    """The snapshot that search follows has several parts."""
    async with curator_and_search(tmp_path, max_message_bytes=SMALL) as channel:
        stub = playbook_grpc.PlaybookServiceStub(channel)
        await apply(stub, *(add(large_text(number)) for number in range(50)))
        added = await apply(stub, *(add(large_text(number)) for number in range(50, 100)))
        curator_stub = curator_grpc.CuratorServiceStub(channel)
        curated = await curator_stub.Curate(curate_request("Close the ledger before the transfer."))
        assert curated.saved, curated.error
        assert curated.revision == added.revision + 1
        query = search_pb2.SearchQuery(query_text="close ledger transfer", top_k=1000)
        request = search_service_pb.SearchRequest(dataset="d", query=query, min_revision=curated.revision)
        found = await pages(search_grpc.SearchServiceStub(channel).Search, request, "results")
        assert found[0].bullet.content == "Close the ledger before the transfer."


async def test_a_change_whose_response_would_not_fit_is_refused_before_it_is_made(tmp_path: Path) -> None:
    async with curator(tmp_path, SMALL) as stub:
        await stub.SetPolicy(
            service_pb.SetPolicyRequest(
                request_id=new_id(),
                dataset="d",
                policy=review_pb2.DatasetPolicy(review_mode=review_pb2.REVIEW_MODE_REVIEW),
            )
        )
        with pytest.raises(InvalidArgument, match="send fewer changes at once") as refused:
            await apply(stub, *(add(large_text(number, 20_000, WIDE)) for number in range(8)))
        assert refused.value.reason == "RESPONSE_TOO_LARGE"
        request = service_pb.ListPendingChangesRequest(dataset="d")
        assert not (await stub.ListPendingChanges(request)).changes


texts = st.integers(0, 10**6).flatmap(
    lambda number: st.sampled_from([20, 2_000, 9_000, 20_000]).map(lambda size: large_text(number, size, WIDE))
)
edits = st.lists(
    st.tuples(st.sampled_from(["add", "add", "add", "update", "delete"]), st.integers(0, 50), texts),
    min_size=1,
    max_size=12,
)
writes = st.lists(st.one_of(edits, st.integers(0, 3)), min_size=1, max_size=5)
"""Edits of one request, or a restoration of an earlier revision; `back` counts from the newest."""


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
@given(sequence=writes)
async def test_after_any_accepted_writes_every_read_succeeds(
    tmp_path_factory: pytest.TempPathFactory, sequence: list[Any]
) -> None:
    async with curator(tmp_path_factory.mktemp("curator"), SMALL) as stub:
        for write in sequence:
            if isinstance(write, int):
                refusal = await attempt(restore(stub, write))
            else:
                ids = [bullet.id for bullet in await read_playbook(stub)]
                deltas = [build_delta(kind, at, text, ids) for kind, at, text in write]
                if sum(delta.ByteSize() for delta in deltas) > SMALL - 1_000:
                    continue
                refusal = await attempt(apply(stub, *deltas))
            assert refusal in ("", "RESPONSE_TOO_LARGE")
            await read_all(stub)


async def restore(stub: Stub, back: int) -> None:
    """Restore the revision that is this number of revisions before the newest."""
    summary = await stub.GetDataset(service_pb.GetDatasetRequest(dataset="d", allow_missing=True))
    if head := summary.dataset.revision:
        revision = max(0, head - back)
        request = service_pb.RestoreRevisionRequest(request_id=new_id(), dataset="d", revision=revision)
        await stub.RestoreRevision(request)


async def attempt(write: Awaitable[object]) -> str:
    """The reason for which a write was refused; empty if it was accepted."""
    try:
        await write
    except InvalidArgument as refused:
        return refused.reason
    return ""


def build_delta(kind: str, at: int, text: str, ids: list[str]) -> pb.Delta:
    if kind == "add" or not ids:
        return add(text)
    bullet_id = ids[at % len(ids)]
    return update(bullet_id, text) if kind == "update" else delete(bullet_id)
