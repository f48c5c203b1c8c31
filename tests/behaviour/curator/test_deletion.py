"""A deleted dataset: no table and no file has its contents, and its name can be used again. On both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select, text

from chassis.errors import FailedPrecondition, NotFound, OutOfRange, RequestIdReused
from hansei.curator.v1.curator_service_pb2_grpc import CuratorServiceStub
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import review_pb2
from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceStub
from hansei.search.v1 import search_pb2
from hansei.search.v1 import search_service_pb2 as search_service_pb
from hansei.search.v1.search_service_pb2_grpc import SearchServiceStub
from libs.storage.engines import parse_location
from services.curator.adapters.sql.schema import metadata
from tests.support.curator_and_search import curate_request, curator_and_search
from tests.support.playbook_client import add, apply, contents, new_id, set_policy, update, vote, watch_events

SECRET = "The zebra of Mr Quagga lives at 7 Savannah Road"
KEPT = "A lesson of another dataset."
SECONDS = 30


@pytest.fixture
def url(database_location: str) -> str:
    """Return an empty database."""
    return database_location if database_location.startswith("postgresql") else f"sqlite:///{database_location}"


class CuratorAndSearch:
    """A curator, and a search service unless the curator is alone."""

    def __init__(self, channel: Any) -> None:
        self.playbooks: Any = PlaybookServiceStub(channel)
        self.curator: Any = CuratorServiceStub(channel)
        self.index: Any = SearchServiceStub(channel)

    async def fill(self) -> int:
        """Put the secret into every kind of row; return the newest revision."""
        await apply(self.playbooks, add(KEPT), dataset="other")
        await self.curator.Curate(curate_request(f"{SECRET}, learned.", trajectory=SECRET))
        added = await apply(self.playbooks, add(f"{SECRET}, added."), trajectory=SECRET)
        bullet_id = added.operations[0].bullet_id
        await apply(self.playbooks, votes=[vote(bullet_id, SECRET)])
        await apply(self.playbooks, update(bullet_id, f"{SECRET}, edited."))
        await apply(self.playbooks, update("nobody", f"{SECRET}, refused."))
        await set_policy(self.playbooks, review_mode=review_pb2.REVIEW_MODE_REVIEW)
        waiting = await apply(self.playbooks, add(f"{SECRET}, waiting."))
        assert waiting.pending
        return int(waiting.revision)

    async def delete(self, request_id: str = "", dataset: str = "d") -> service_pb.DeleteDatasetResponse:
        request = service_pb.DeleteDatasetRequest(request_id=request_id or new_id(), dataset=dataset, author="ada")
        response: service_pb.DeleteDatasetResponse = await self.playbooks.DeleteDataset(request)
        return response

    async def search(self, min_revision: int = 0, dataset: str = "d") -> list[str]:
        query = search_pb2.SearchQuery(query_text="zebra lesson", top_k=10)
        request = search_service_pb.SearchRequest(dataset=dataset, query=query, min_revision=min_revision)
        return [result.bullet.content for result in (await self.index.Search(request)).results]

    async def list_datasets(self, *, deleted: bool) -> list[service_pb.Dataset]:
        response = await self.playbooks.ListDatasets(service_pb.ListDatasetsRequest(deleted=deleted))
        return list(response.datasets)


@pytest.fixture
def run(url: str, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs the services on the same data."""

    @asynccontextmanager
    async def running(**settings: Any) -> AsyncIterator[CuratorAndSearch]:
        async with curator_and_search(tmp_path, curator_database_url=url, **settings) as channel:
            yield CuratorAndSearch(channel)

    return running


def places_with_the_secret(url: str, folder: Path) -> set[str]:
    """Return the files below a folder, and the tables, that hold a part of the secret."""
    marks = [b"Savannah Road", b"zebra of Mr"]
    found = {
        file.name for file in folder.rglob("*") if file.is_file() and any(mark in file.read_bytes() for mark in marks)
    }
    engine = create_engine(parse_location(url))
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            # As stored, and as read: columns of the log are compressed.
            stored = connection.execute(text(f'SELECT * FROM "{table.name}"')).all()
            rows = repr([stored, connection.execute(select(table)).all()])
            if any(mark.decode() in rows for mark in marks):
                found.add(table.name)
    engine.dispose()
    return found


async def wait_until(is_reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            if is_reached():
                return
            await asyncio.sleep(0.02)


async def test_nothing_of_a_deleted_dataset_stays(run: Any, url: str, tmp_path: Path) -> None:
    async with run() as system:
        filled = await system.fill()
        bullets = await contents(system.playbooks)
        found = await system.search(filled)
        assert found
    tables = {"bullet", "change", "revision", "vote", "pending", "request"}
    assert tables | {"d.index"} <= places_with_the_secret(url, tmp_path)

    async with run() as system:
        assert await system.search(filled) == found
        deleted = await system.delete()
        assert (deleted.revision, deleted.bullets) == (filled + 1, len(bullets))
        assert places_with_the_secret(url, tmp_path) <= {"d.index"}
        await wait_until(lambda: not places_with_the_secret(url, tmp_path))
        with pytest.raises(NotFound) as missing:
            await system.search(deleted.revision)
        assert missing.value.reason == "DATASET_NOT_FOUND"
        assert await system.search(1, "other") == [KEPT]
    assert places_with_the_secret(url, tmp_path) == set()


async def test_a_snapshot_that_nobody_follows_is_dropped_at_the_next_start(run: Any, url: str, tmp_path: Path) -> None:
    async with run() as system:
        filled = await system.fill()
        await system.search(filled)
        await system.search(1, "other")
    async with run(alone=True) as system:
        await system.delete()
    assert places_with_the_secret(url, tmp_path) == {"d.index"}
    async with run():
        await wait_until(lambda: not (tmp_path / "s" / "d.index").exists())
    assert (tmp_path / "s" / "other.index").exists()


async def test_a_new_dataset_of_the_name_is_not_the_deleted_one(run: Any) -> None:
    async with run() as system:
        filled = await system.fill()
        await system.search(filled)
        deleted = await system.delete()
        with pytest.raises(NotFound):
            await contents(system.playbooks)
        with pytest.raises(NotFound):
            await system.delete()
        assert [dataset.name for dataset in await system.list_datasets(deleted=False)] == ["other"]
        (tombstone,) = await system.list_datasets(deleted=True)
        assert (tombstone.name, tombstone.revision, tombstone.deleted_revision) == ("d", filled + 1, filled + 1)
        assert tombstone.deleted_at == deleted.deleted_at

        again = await apply(system.playbooks, add("A new zebra."))
        assert again.revision == deleted.revision + 1
        assert await contents(system.playbooks) == ["A new zebra."]
        assert await system.search(again.revision) == ["A new zebra."]
        head = await system.playbooks.GetDataset(service_pb.GetDatasetRequest(dataset="d"))
        assert head.policy.review_mode != review_pb2.REVIEW_MODE_REVIEW, "the rules were deleted, too"
        book = (await system.playbooks.GetPlaybook(service_pb.GetPlaybookRequest(dataset="d"))).playbook
        assert book.created_at.ToDatetime() > deleted.deleted_at.ToDatetime()

        with pytest.raises(OutOfRange) as erased:
            await contents(system.playbooks, filled)
        assert erased.value.reason == "REVISION_ERASED"
        assert await contents(system.playbooks, deleted.revision) == []
        for call in (
            system.playbooks.DiffRevisions(service_pb.DiffRevisionsRequest(dataset="d", from_revision=filled)),
            system.playbooks.RestoreRevision(
                service_pb.RestoreRevisionRequest(request_id=new_id(), dataset="d", revision=filled)
            ),
        ):
            with pytest.raises(OutOfRange) as erased:
                await call
            assert erased.value.reason == "REVISION_ERASED"
        history = (await system.playbooks.GetHistory(service_pb.GetHistoryRequest(dataset="d"))).revisions
        assert [(entry.kind, entry.author) for entry in history] == [
            (pb.REVISION_KIND_APPLY, "api"),
            (pb.REVISION_KIND_DELETE, "ada"),
        ]


async def test_followers_of_the_feed_see_the_deletion(run: Any) -> None:
    async with run(alone=True) as system:
        filled = await system.fill()
        watcher = asyncio.create_task(watch_events(system.playbooks, 2, from_revision=filled))
        late = asyncio.create_task(watch_events(system.playbooks, filled))
        assert len(await late) == filled
        deleted = await system.delete()
        await apply(system.playbooks, add("A new zebra."))
        seen = await watcher
        expected = [(deleted.revision, pb.REVISION_KIND_DELETE), (deleted.revision + 1, pb.REVISION_KIND_APPLY)]
        assert [(event.revision.revision, event.revision.kind) for event in seen] == expected
        from_start = await watch_events(system.playbooks, 2)
        assert [(event.revision.revision, event.revision.kind) for event in from_start] == expected


async def test_a_deletion_happens_once_and_takes_no_stale_change(run: Any) -> None:
    async with run(alone=True) as system:
        filled = await system.fill()
        request_id = new_id()
        deleted = await system.delete(request_id)
        await apply(system.playbooks, add("A new zebra."))
        assert await system.delete(request_id) == deleted
        assert await contents(system.playbooks) == ["A new zebra."]
        with pytest.raises(FailedPrecondition) as stale:
            await apply(system.playbooks, add(SECRET), base=filled)
        assert stale.value.reason == "DATASET_DELETED"
        with pytest.raises(RequestIdReused):
            await system.delete(request_id, "other")
        with pytest.raises(NotFound):
            await system.delete(dataset="never-there")
        assert [dataset.name for dataset in await system.list_datasets(deleted=True)] == ["d"]
