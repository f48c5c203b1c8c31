"""Read playbooks, their history and their sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC
from itertools import takewhile
from typing import Any

from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.curator.domain.errors import BulletNotFound
from services.curator.domain.log import SlotChange, invert_changes, join_by_id, merge_changes
from services.curator.domain.snapshot import Snapshot
from services.curator.rpc.convert import playbook as convert
from services.curator.usecases.ports import PlaybookStore, SectionSource

DEFAULT_PAGE = 100
HISTORY_PAGE = 50
MAX_PAGE_BYTES = 8 * 1024 * 1024
"""The size of a page, below the limit of gRPC."""


class PlaybookReads:
    """The reading methods of PlaybookService."""

    def __init__(self, store: PlaybookStore, sections: SectionSource) -> None:
        self._store = store
        self._sections = sections

    async def GetPlaybook(self, request: service_pb.GetPlaybookRequest, context: Any) -> service_pb.GetPlaybookResponse:
        """Return a whole playbook, the newest or as of a revision or a time."""
        if not request.allow_missing:
            await self._store.require(request.dataset)
        revision: int | None = None
        if request.WhichOneof("at") == "revision":
            revision = request.revision
        elif request.WhichOneof("at") == "time":
            revision = await self._store.revision_at(request.dataset, request.time.ToDatetime(tzinfo=UTC))
        snapshot = await self._store.load(request.dataset, revision)
        return service_pb.GetPlaybookResponse(playbook=convert.encode_playbook(snapshot))

    async def ListBullets(self, request: service_pb.ListBulletsRequest, context: Any) -> service_pb.ListBulletsResponse:
        """Return a page of bullets; the token has the revision, so that all pages show one state."""
        revision, last = decode_page_token(request, int, int) or (None, -1)
        await self._store.require(request.dataset)
        snapshot = await self._store.load(request.dataset, revision)
        sections, ids = frozenset(request.sections), frozenset(request.ids)
        listed = [
            stored
            for stored in snapshot.all_bullets()
            if (not sections or stored.bullet.section in sections) and (not ids or stored.bullet.id in ids)
        ]
        rest = [stored for stored in listed if stored.slot > last]
        page = rest[: request.page_size or DEFAULT_PAGE]
        more = len(rest) > len(page)
        return service_pb.ListBulletsResponse(
            bullets=[convert.encode_stored_bullet(stored) for stored in page],
            next_page_token=encode_page_token(request, snapshot.revision, page[-1].slot) if more else "",
            revision=snapshot.revision,
            total_size=len(listed),
        )

    async def ListDatasets(
        self, request: service_pb.ListDatasetsRequest, context: Any
    ) -> service_pb.ListDatasetsResponse:
        """Return a page of datasets, by name."""
        (after,) = decode_page_token(request, str) or (_find_previous(request.prefix),)
        size = request.page_size or DEFAULT_PAGE
        found = await self._store.datasets(after, size + 1, deleted=request.deleted)
        datasets = list(takewhile(lambda dataset: dataset.name.startswith(request.prefix), found))
        page = datasets[:size]
        return service_pb.ListDatasetsResponse(
            datasets=[convert.encode_dataset(dataset) for dataset in page],
            next_page_token=encode_page_token(request, page[-1].name) if len(datasets) > size else "",
        )

    async def GetDataset(self, request: service_pb.GetDatasetRequest, context: Any) -> service_pb.GetDatasetResponse:
        """Return the newest state of a dataset, without its bullets."""
        if not request.allow_missing:
            await self._store.require(request.dataset)
        return convert.encode_head(await self._store.head(request.dataset))

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
        size = request.page_size or HISTORY_PAGE
        revisions = await self._store.history(request.dataset, before, size + 1)
        page = list(_take_page(convert.encode_revision(revision) for revision in revisions[:size]))
        more = len(revisions) > len(page)
        return service_pb.GetHistoryResponse(
            revisions=page, next_page_token=encode_page_token(request, page[-1].revision) if more else ""
        )

    async def GetBulletHistory(
        self, request: service_pb.GetBulletHistoryRequest, context: Any
    ) -> service_pb.GetBulletHistoryResponse:
        """Return the revisions that changed a bullet, oldest first."""
        await self._store.require(request.dataset)
        revisions = await self._store.bullet_history(request.dataset, request.bullet_id)
        if not revisions:
            raise BulletNotFound(f'dataset "{request.dataset}" never had a bullet "{request.bullet_id}"')
        return service_pb.GetBulletHistoryResponse(
            revisions=[_select_bullet(convert.encode_revision(revision), request.bullet_id) for revision in revisions]
        )

    async def DiffRevisions(
        self, request: service_pb.DiffRevisionsRequest, context: Any
    ) -> service_pb.DiffRevisionsResponse:
        """Return the differences between two revisions, in either direction of time."""
        await self._store.require(request.dataset)
        low, high = request.from_revision, request.to_revision
        after = await self._store.load(request.dataset, high or None)
        high = after.revision
        before = await self._store.load(request.dataset, low)
        first, last = sorted((low, high))
        changes = await self._store.changes_between(request.dataset, first, last)
        differing = join_by_id(merge_changes(changes if low <= high else invert_changes(changes)))
        return service_pb.DiffRevisionsResponse(
            changes=[convert.encode_change(change) for change in _set_positions(differing, before, after)],
            from_revision=low,
            to_revision=high,
        )


def _set_positions(changes: Sequence[SlotChange], before: Snapshot, after: Snapshot) -> Iterator[SlotChange]:
    """Yield the changes with the positions in the two snapshots."""
    old = {slot: index for index, slot in enumerate(before.slots)}
    new = {slot: index for index, slot in enumerate(after.slots)}
    for change in changes:
        yield replace(change, position=old[change.slot] if change.after is None else new[change.slot])


def _take_page(messages: Iterator[pb.Revision]) -> Iterator[pb.Revision]:
    """Yield the messages that fit a page, at least one."""
    size = 0
    for message in messages:
        size += message.ByteSize()
        if size > MAX_PAGE_BYTES and size > message.ByteSize():
            return
        yield message


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
