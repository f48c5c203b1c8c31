"""The change feed over gRPC: in order, without gap or repetition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hansei.playbook.v1.playbook_service_pb2 import DeleteDatasetRequest, WatchPlaybookRequest
from libs.embedding.embedder import TextEmbedder
from libs.embedding.hashing import Hashing
from services.curator.domain.errors import RevisionAhead
from tests.support.playbook_client import (
    add,
    apply,
    curator,
    delete,
    import_file,
    new_id,
    vote,
    watch_events,
)

if TYPE_CHECKING:
    from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceAsyncStub as Stub


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[Stub]:
    async with curator(tmp_path) as stub:
        yield stub


async def test_a_watcher_gets_past_and_then_new_revisions(stub: Stub) -> None:
    await apply(stub, add("one"))
    watcher = asyncio.create_task(watch_events(stub, 4))
    for number in range(3):
        await apply(stub, add(f"lesson {number}"))
    events = await watcher
    assert [event.revision.revision for event in events] == [1, 2, 3, 4]
    assert events[-1].revision.changes[0].after.content == "lesson 2"
    assert events[-1].revision.changes[0].position == 3
    with pytest.raises(RevisionAhead):
        await watch_events(stub, 1, from_revision=99)


async def test_a_watcher_resumes_from_a_revision_unless_the_store_was_replaced(stub: Stub) -> None:
    for number in range(3):
        await apply(stub, add(f"lesson {number}"))
    second, third = (event.revision.committed_at for event in await watch_events(stub, 2, from_revision=1))
    (event,) = await watch_events(stub, 1, from_revision=2, from_committed_at=second)
    assert event.revision.revision == 3
    (snapshot,) = await watch_events(stub, 1, snapshot=True)
    assert snapshot.snapshot.committed_at == third
    for revision, committed_at in ((2, third), (99, third)):
        (event,) = await watch_events(stub, 1, from_revision=revision, from_committed_at=committed_at)
        assert (event.snapshot.playbook.revision, len(event.snapshot.playbook.bullets)) == (3, 3)
    await stub.DeleteDataset(DeleteDatasetRequest(request_id=new_id(), dataset="d", author="ada"))
    await apply(stub, add("after the deletion"))
    (event,) = await watch_events(stub, 1, from_revision=3, from_committed_at=third)
    assert [bullet.content for bullet in event.snapshot.playbook.bullets] == ["after the deletion"]


async def test_a_resumed_watcher_hears_at_once_that_nothing_changed(stub: Stub) -> None:
    await apply(stub, add("one"))
    (event,) = await watch_events(stub, 1)
    request = WatchPlaybookRequest(
        dataset="d", from_revision=1, from_committed_at=event.revision.committed_at, allow_missing=True
    )
    async for first in stub.WatchPlaybook(request):
        assert first.progress.revision == 1
        break


async def test_a_watcher_can_begin_with_a_snapshot(stub: Stub) -> None:
    await import_file(stub, "\n".join(f"[x-{number:05d}] lesson {number}" for number in range(2_500)).encode())
    events = await watch_events(stub, 10, snapshot=True)
    parts = [event.snapshot for event in events]
    assert [len(part.playbook.bullets) for part in parts] == [250] * 10
    assert [part.last for part in parts] == [False] * 9 + [True]
    watcher = asyncio.create_task(watch_events(stub, 1, from_revision=parts[-1].playbook.revision))
    await apply(stub, add("after the snapshot"))
    assert [event.revision.revision for event in await watcher] == [parts[-1].playbook.revision + 1]


async def test_a_watcher_resumes_across_a_restart_without_gap_or_repetition(tmp_path: Path) -> None:
    seen: list[int] = []
    for start in (0, 5):
        async with curator(tmp_path) as stub:
            watcher = asyncio.create_task(watch_events(stub, 5, from_revision=start))
            for number in range(5):
                await apply(stub, add(f"lesson {start} {number}"))
            seen += [event.revision.revision for event in await watcher]
    assert seen == list(range(1, 11))


async def test_a_watcher_sees_what_another_process_commits(tmp_path: Path) -> None:
    async with curator(tmp_path) as watched, curator(tmp_path) as other:
        watcher = asyncio.create_task(watch_events(watched, 4))
        for number in range(4):
            await apply(other if number % 2 else watched, add(f"lesson {number}"))
        assert [event.revision.revision for event in await watcher] == [1, 2, 3, 4]


async def test_five_hundred_watchers_at_once(stub: Stub) -> None:
    await apply(stub, add("one"))
    watchers = [asyncio.create_task(watch_events(stub, 4)) for _ in range(500)]
    for number in range(3):
        await apply(stub, add(f"lesson {number}"))
    for events in await asyncio.gather(*watchers):
        assert [event.revision.revision for event in events] == [1, 2, 3, 4]


def vector_of(text: str) -> bytes:
    return bytes(Hashing().compute([text])[0].astype("<f4"))


async def test_a_watcher_that_asks_for_a_model_gets_the_vector_of_each_changed_bullet(stub: Stub) -> None:
    (operation,) = (await apply(stub, add("Moor the boat"))).operations
    await apply(stub, votes=[vote(operation.bullet_id, "run")])
    await apply(stub, delete(operation.bullet_id))
    events = await watch_events(stub, 3, embedding_model_id=Hashing.model_id)
    added, voted, removed = (event.revision.changes[0] for event in events)
    for change in (added, voted):
        assert (change.embedding.model_id, change.embedding.dimension) == (Hashing.model_id, 1536)
        assert change.embedding.values == vector_of("Moor the boat")
    assert not removed.HasField("embedding")


async def test_a_watcher_that_asks_for_none_or_for_another_model_gets_no_vectors(stub: Stub) -> None:
    await apply(stub, add("Moor the boat"))
    for model_id in ("", "another"):
        (event,) = await watch_events(stub, 1, embedding_model_id=model_id)
        assert not event.revision.changes[0].HasField("embedding")
    (event,) = await watch_events(stub, 1, snapshot=True)
    assert len(event.snapshot.embeddings) == 0
    (event,) = await watch_events(stub, 1, snapshot=True, embedding_model_id="another")
    assert [embedding.values for embedding in event.snapshot.embeddings] == [b""]


async def test_a_snapshot_brings_vectors_of_what_changed_since_a_revision(stub: Stub) -> None:
    for text in ("one", "two"):
        await apply(stub, add(text))
    for after, expected in ((0, [vector_of("one"), vector_of("two")]), (1, [b"", vector_of("two")])):
        (event,) = await watch_events(
            stub, 1, snapshot=True, embedding_model_id=Hashing.model_id, embeddings_after_revision=after
        )
        assert [embedding.values for embedding in event.snapshot.embeddings] == expected


async def test_parts_of_a_snapshot_with_vectors_stay_within_a_message(stub: Stub) -> None:
    await import_file(stub, "\n".join(f"[x-{number:05d}] lesson {number}" for number in range(1_500)).encode())
    events = await watch_events(stub, 6, snapshot=True, embedding_model_id=Hashing.model_id)
    parts = [event.snapshot for event in events]
    assert max(part.ByteSize() for part in parts) < 5 * 1024 * 1024
    assert sum(len(part.playbook.bullets) for part in parts) == 1_500
    assert all(len(part.embeddings) == len(part.playbook.bullets) for part in parts)
    assert all(embedding.values for part in parts for embedding in part.embeddings)
    assert [part.last for part in parts] == [False] * 5 + [True]


async def test_other_calls_run_between_the_parts_for_watchers_that_start_together(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    await import_file(stub, "\n".join(f"[x-{number:05d}] lesson {number}" for number in range(1_000)).encode())
    turn = 0
    built: list[int] = []  # the turn of the event loop in which each part was built
    get_cached = TextEmbedder.get_cached

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def record_turn(*args: Any) -> Any:
        vectors = await get_cached(*args)
        built.append(turn)
        return vectors

    monkeypatch.setattr(TextEmbedder, "get_cached", record_turn)
    counting = asyncio.create_task(count_turns())
    watchers = [watch_events(stub, 4, snapshot=True, embedding_model_id=Hashing.model_id) for _ in range(20)]
    events = [event for watcher in await asyncio.gather(*watchers) for event in watcher]
    counting.cancel()
    assert sum(event.snapshot.last for event in events) == 20
    assert len(built) == 20 * 4
    assert len(set(built)) == len(built)
