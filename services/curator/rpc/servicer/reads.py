"""PlaybookService: what reads."""

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
from services.curator.domain.log import Change, by_id, inverted, net
from services.curator.domain.snapshot import Snapshot
from services.curator.rpc.convert import playbook as convert
from services.curator.usecases.ports import PlaybookStore, SectionSource

DEFAULT_PAGE = 100
HISTORY_PAGE = 50
# Below what gRPC lets through, so that a page always arrives.
MAX_PAGE_BYTES = 8 * 1024 * 1024


class PlaybookReads:
    """Reads of playbooks and their history."""

    def __init__(self, store: PlaybookStore, sections: SectionSource) -> None:
        self._store = store
        self._sections = sections

    async def GetPlaybook(self, request: service_pb.GetPlaybookRequest, context: Any) -> service_pb.GetPlaybookResponse:
        """A whole playbook, now or as of a revision or a time."""
        revision: int | None = None
        if request.WhichOneof("at") == "revision":
            revision = request.revision
        elif request.WhichOneof("at") == "time":
            revision = await self._store.revision_at(request.dataset, request.time.ToDatetime(tzinfo=UTC))
        snapshot = await self._store.load(request.dataset, revision)
        return service_pb.GetPlaybookResponse(playbook=convert.playbook_message(snapshot))

    async def ListBullets(self, request: service_pb.ListBulletsRequest, context: Any) -> service_pb.ListBulletsResponse:
        """A page of bullets; the token holds the revision, so that all pages show one state."""
        revision, last = decode_page_token(request, int, int) or (None, -1)
        snapshot = await self._store.load(request.dataset, revision)
        sections, ids = frozenset(request.sections), frozenset(request.ids)
        listed = [
            one
            for one in snapshot.everything()
            if (not sections or one.bullet.section in sections) and (not ids or one.bullet.id in ids)
        ]
        rest = [one for one in listed if one.slot > last]
        page = rest[: request.page_size or DEFAULT_PAGE]
        more = len(rest) > len(page)
        return service_pb.ListBulletsResponse(
            bullets=[convert.stored_message(one) for one in page],
            next_page_token=encode_page_token(request, snapshot.revision, page[-1].slot) if more else "",
            revision=snapshot.revision,
            total_size=len(listed),
        )

    async def ListDatasets(
        self, request: service_pb.ListDatasetsRequest, context: Any
    ) -> service_pb.ListDatasetsResponse:
        """A page of datasets, by name."""
        (after,) = decode_page_token(request, str) or (_just_before(request.prefix),)
        size = request.page_size or DEFAULT_PAGE
        found = await self._store.datasets(after, size + 1)
        datasets = list(takewhile(lambda one: one.name.startswith(request.prefix), found))
        page = datasets[:size]
        return service_pb.ListDatasetsResponse(
            datasets=[convert.dataset_message(dataset) for dataset in page],
            next_page_token=encode_page_token(request, page[-1].name) if len(datasets) > size else "",
        )

    async def GetDataset(self, request: service_pb.GetDatasetRequest, context: Any) -> service_pb.GetDatasetResponse:
        """Return the head of a dataset."""
        return convert.head_message(await self._store.head(request.dataset))

    async def GetSections(self, request: service_pb.GetSectionsRequest, context: Any) -> service_pb.GetSectionsResponse:
        """The sections a dataset defines."""
        sections = await self._sections.read(request.dataset)
        return service_pb.GetSectionsResponse(
            sections=[pb.Section(name=one.name, description=one.description) for one in sections]
        )

    async def GetHistory(self, request: service_pb.GetHistoryRequest, context: Any) -> service_pb.GetHistoryResponse:
        """A page of revisions, newest first; shorter than asked for when they are large."""
        (before,) = decode_page_token(request, int) or (None,)
        size = request.page_size or HISTORY_PAGE
        revisions = await self._store.history(request.dataset, before, size + 1)
        page = list(_fitting(convert.revision_message(one) for one in revisions[:size]))
        more = len(revisions) > len(page)
        return service_pb.GetHistoryResponse(
            revisions=page, next_page_token=encode_page_token(request, page[-1].revision) if more else ""
        )

    async def GetBulletHistory(
        self, request: service_pb.GetBulletHistoryRequest, context: Any
    ) -> service_pb.GetBulletHistoryResponse:
        """What happened to one bullet, oldest first."""
        revisions = await self._store.bullet_history(request.dataset, request.bullet_id)
        if not revisions:
            raise BulletNotFound(f'dataset "{request.dataset}" never had a bullet "{request.bullet_id}"')
        return service_pb.GetBulletHistoryResponse(
            revisions=[_only(convert.revision_message(one), request.bullet_id) for one in revisions]
        )

    async def DiffRevisions(
        self, request: service_pb.DiffRevisionsRequest, context: Any
    ) -> service_pb.DiffRevisionsResponse:
        """What differs between two revisions, in either direction of time."""
        low, high = request.from_revision, request.to_revision
        after = await self._store.load(request.dataset, high or None)
        high = after.revision
        before = await self._store.load(request.dataset, low)
        first, last = sorted((low, high))
        changes = await self._store.changes_between(request.dataset, first, last)
        differing = by_id(net(changes if low <= high else inverted(changes)))
        return service_pb.DiffRevisionsResponse(
            changes=[convert.change_message(change) for change in _placed(differing, before, after)],
            from_revision=low,
            to_revision=high,
        )


def _placed(changes: Sequence[Change], before: Snapshot, after: Snapshot) -> Iterator[Change]:
    """The changes with places as they are in the two snapshots."""
    old = {slot: place for place, slot in enumerate(before.slots)}
    new = {slot: place for place, slot in enumerate(after.slots)}
    for change in changes:
        yield replace(change, position=old[change.slot] if change.after is None else new[change.slot])


def _fitting(messages: Iterator[pb.Revision]) -> Iterator[pb.Revision]:
    """As many messages as fit a page, one at least."""
    size = 0
    for message in messages:
        size += message.ByteSize()
        if size > MAX_PAGE_BYTES and size > message.ByteSize():
            return
        yield message


def _only(message: pb.Revision, bullet_id: str) -> pb.Revision:
    """The revision with one bullet's operations and votes."""
    operations = [one for one in message.operations if one.bullet_id == bullet_id]
    votes = [one for one in message.votes if one.vote.bullet_id == bullet_id]
    del message.operations[:]
    del message.votes[:]
    message.operations.extend(operations)
    message.votes.extend(votes)
    return message


def _just_before(prefix: str) -> str:
    """What sorts, by code points, right before the names that begin with `prefix`: none has `~` or anything above."""
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + "~" if prefix else ""
