"""Read playbooks, their history and their sections."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from chassis.server.messages import decode_time, encode
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.curator.domain.errors import BulletNotFound
from services.curator.domain.log import Revision
from services.curator.domain.snapshot import compare_snapshots
from services.curator.rpc.convert import playbook as convert
from services.curator.rpc.servicer.message_size import MessageSize
from services.curator.usecases.ports import PlaybookStore, SectionSource

DEFAULT_PAGE = 100
HISTORY_PAGE = 50
READ_AT_ONCE = 8
"""Revisions of the first read of a page; each further one reads twice as many."""


class PlaybookReads:
    """The reading methods of PlaybookService."""

    def __init__(self, store: PlaybookStore, sections: SectionSource, size: MessageSize) -> None:
        self._store = store
        self._sections = sections
        self._size = size

    async def GetPlaybook(self, request: service_pb.GetPlaybookRequest, context: Any) -> service_pb.GetPlaybookResponse:
        """Return a playbook, the newest or as of a revision or a time; a large one in pages."""
        revision, last = decode_page_token(request, int, int) or (None, -1)
        if not request.allow_missing:
            await self._store.require(request.dataset)
        if revision is None and request.WhichOneof("version") == "revision":
            revision = request.revision
        elif revision is None and (time := decode_time(request, "time")) is not None:
            revision = await self._store.find_revision_at(request.dataset, time)
        snapshot = await self._store.load(request.dataset, revision)
        rest = [stored for stored in snapshot.list_bullets() if stored.slot > last]
        playbook = convert.encode_playbook_head(snapshot)
        playbook.bullets.extend(self._size.fill_page(map(convert.encode_stored_bullet, rest)))
        count = len(playbook.bullets)
        more = count < len(rest)
        return service_pb.GetPlaybookResponse(
            playbook=playbook,
            next_page_token=encode_page_token(request, snapshot.revision, rest[count - 1].slot) if more else "",
        )

    async def ListBullets(self, request: service_pb.ListBulletsRequest, context: Any) -> service_pb.ListBulletsResponse:
        """Return a page of bullets; the token has the revision, so that all pages show one state."""
        revision, last = decode_page_token(request, int, int) or (None, -1)
        await self._store.require(request.dataset)
        snapshot = await self._store.load(request.dataset, revision)
        sections, ids = frozenset(request.sections), frozenset(request.ids)
        listed = [
            stored
            for stored in snapshot.list_bullets()
            if (not sections or stored.bullet.section in sections) and (not ids or stored.bullet.id in ids)
        ]
        rest = [stored for stored in listed if stored.slot > last]
        page = self._size.fill_page(map(convert.encode_stored_bullet, rest), request.page_size or DEFAULT_PAGE)
        more = len(rest) > len(page)
        return service_pb.ListBulletsResponse(
            bullets=page,
            next_page_token=encode_page_token(request, snapshot.revision, rest[len(page) - 1].slot) if more else "",
            revision=snapshot.revision,
            total_size=len(listed),
        )

    async def ListDatasets(
        self, request: service_pb.ListDatasetsRequest, context: Any
    ) -> service_pb.ListDatasetsResponse:
        """Return a page of datasets, by name."""
        (after,) = decode_page_token(request, str) or (_find_previous(request.prefix),)
        size = request.page_size or DEFAULT_PAGE
        found = await self._store.list_datasets(after, size + 1, deleted=request.deleted)
        datasets = list(takewhile(lambda dataset: dataset.name.startswith(request.prefix), found))
        page = datasets[:size]
        return service_pb.ListDatasetsResponse(
            datasets=[encode(dataset, service_pb.Dataset) for dataset in page],
            next_page_token=encode_page_token(request, page[-1].name) if len(datasets) > size else "",
        )

    async def GetDataset(self, request: service_pb.GetDatasetRequest, context: Any) -> service_pb.GetDatasetResponse:
        """Return the newest state of a dataset, without its bullets."""
        if not request.allow_missing:
            await self._store.require(request.dataset)
        return convert.encode_head(await self._store.load_head(request.dataset))

    async def GetSections(self, request: service_pb.GetSectionsRequest, context: Any) -> service_pb.GetSectionsResponse:
        """Return the sections of a dataset."""
        sections = await self._sections.read(request.dataset)
        return service_pb.GetSectionsResponse(
            sections=[pb.Section(name=section.name, description=section.description) for section in sections]
        )

    async def GetHistory(self, request: service_pb.GetHistoryRequest, context: Any) -> service_pb.GetHistoryResponse:
        """Return a page of revisions, newest first; fewer than requested if they are large."""
        (before,) = decode_page_token(request, int) or (None,)
        await self._store.require(request.dataset)
        most = request.page_size or HISTORY_PAGE
        revisions, more = await self._read_history(request.dataset, before, most)
        return service_pb.GetHistoryResponse(
            revisions=revisions, next_page_token=encode_page_token(request, revisions[-1].revision) if more else ""
        )

    async def _read_history(self, dataset: str, before: int | None, most: int) -> tuple[list[pb.Revision], bool]:
        """Return a page of revisions, and whether more follow. Few are read at once, because each may be large."""
        read: list[pb.Revision] = []
        wanted = READ_AT_ONCE
        while True:
            revisions = await self._store.list_revisions(dataset, before, wanted)
            read += [self._encode_revision(revision) for revision in revisions]
            page = self._size.fill_page(read, most)
            if len(page) < len(read) or len(revisions) < wanted:
                return page, len(page) < len(read)
            before, wanted = revisions[-1].number, 2 * wanted

    def _encode_revision(self, revision: Revision) -> pb.Revision:
        return self._size.fit_revision(convert.encode_revision(revision))

    async def GetBulletHistory(
        self, request: service_pb.GetBulletHistoryRequest, context: Any
    ) -> service_pb.GetBulletHistoryResponse:
        """Return a page of the revisions that changed a bullet, oldest first."""
        (after,) = decode_page_token(request, int) or (0,)
        await self._store.require(request.dataset)
        revisions = await self._store.list_bullet_revisions(request.dataset, request.bullet_id)
        if not revisions:
            raise BulletNotFound(f'dataset "{request.dataset}" never had a bullet "{request.bullet_id}"')
        rest = [revision for revision in revisions if revision.number > after]
        messages = (_select_bullet(convert.encode_revision(revision), request.bullet_id) for revision in rest)
        page = self._size.fill_page(map(self._size.fit_revision, messages), request.page_size or None)
        more = len(page) < len(rest)
        return service_pb.GetBulletHistoryResponse(
            revisions=page, next_page_token=encode_page_token(request, page[-1].revision) if more else ""
        )

    async def DiffRevisions(
        self, request: service_pb.DiffRevisionsRequest, context: Any
    ) -> service_pb.DiffRevisionsResponse:
        """Return the differences between two revisions, in either direction of time; many in pages."""
        to_revision, start = decode_page_token(request, int, int) or (request.to_revision or None, 0)
        await self._store.require(request.dataset)
        after = await self._store.load(request.dataset, to_revision)
        before = await self._store.load(request.dataset, request.from_revision)
        rest = compare_snapshots(before, after)[start:]
        page = self._size.fill_page(map(convert.encode_change, rest))
        more = len(page) < len(rest)
        return service_pb.DiffRevisionsResponse(
            changes=page,
            from_revision=before.revision,
            to_revision=after.revision,
            next_page_token=encode_page_token(request, after.revision, start + len(page)) if more else "",
        )


def _select_bullet(message: pb.Revision, bullet_id: str) -> pb.Revision:
    """Return the revision with the operations and votes of one bullet only."""
    operations = [operation for operation in message.operations if operation.bullet_id == bullet_id]
    votes = [outcome for outcome in message.votes if outcome.vote.bullet_id == bullet_id]
    del message.operations[:]
    del message.votes[:]
    message.operations.extend(operations)
    message.votes.extend(votes)
    return message


def _find_previous(prefix: str) -> str:
    """Return a text that sorts right before the names with `prefix`: no name has a character from `~` on."""
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + "~" if prefix else ""
