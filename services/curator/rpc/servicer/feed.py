"""Send the change feed of a dataset, with the vectors of changed bullets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from cachetools import LRUCache

from chassis.server.messages import decode_time
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from libs.embedding.embedder import TextEmbedder
from libs.embedding.model import Float32s
from services.curator.domain.log import Revision, RevisionKind, StoredBullet
from services.curator.domain.snapshot import Snapshot
from services.curator.rpc.convert import playbook as convert
from services.curator.rpc.servicer.message_size import MessageSize
from services.curator.usecases.watch import Watch

SNAPSHOT_PART = 250
CACHED_MESSAGES = 256


class PlaybookFeed:
    """The method WatchPlaybook of PlaybookService."""

    def __init__(self, watch: Watch, embedder: TextEmbedder, size: MessageSize) -> None:
        self._watch = watch
        self._size = size
        self._embedder = embedder
        self._messages: LRUCache[tuple[str, int, str], pb.Revision] = LRUCache(CACHED_MESSAGES)
        # When a search process starts, it watches all its playbooks at once. Other calls then wait for one part, and
        # not for a part of each playbook. After a part, the lock is held as long as the part took: `grpc.aio` accepts
        # one call at a time, so calls behind a thousand watchers would wait for a part for each watcher.
        self._building = asyncio.Lock()

    async def WatchPlaybook(
        self, request: service_pb.WatchPlaybookRequest, context: Any
    ) -> AsyncIterator[service_pb.WatchPlaybookResponse]:
        """Yield the change feed of a dataset."""
        from_committed_at = decode_time(request, "from_committed_at")
        events = self._watch.events(
            request.dataset,
            request.from_revision,
            snapshot=request.snapshot,
            from_committed_at=from_committed_at,
            allow_missing=request.allow_missing,
        )
        sent = 0
        async for event in events:
            if isinstance(event, Revision):
                if event.number <= sent:
                    continue
                message = await self._build_revision_message(event, request.embedding_model_id)
                if message.HasField("omitted"):
                    current = await self._watch.load(request.dataset)
                    async for part in self._split_snapshot(current, request):
                        yield service_pb.WatchPlaybookResponse(snapshot=part)
                    sent = current.revision
                else:
                    yield service_pb.WatchPlaybookResponse(revision=message)
            elif isinstance(event, Snapshot):
                async for part in self._split_snapshot(event, request):
                    yield service_pb.WatchPlaybookResponse(snapshot=part)
            else:
                yield service_pb.WatchPlaybookResponse(progress=service_pb.Progress(revision=event.revision))

    async def _build_revision_message(self, revision: Revision, model_id: str) -> pb.Revision:
        """Return the message of a revision, cached for all watchers, without the parts that do not fit."""
        key = (revision.dataset, revision.number, model_id)
        message = self._messages.get(key)
        if revision.origin.kind is RevisionKind.DELETE:
            for erased in [other for other in self._messages if other[0] == revision.dataset]:
                del self._messages[erased]
        if message is None:
            message = convert.encode_revision(revision)
            vectors = await self._load_vectors([change.after for change in revision.changes], model_id)
            for change, change_message in zip(revision.changes, message.changes, strict=True):
                if (vector := _find_vector(change.after, vectors)) is not None:
                    change_message.embedding.CopyFrom(convert.encode_embedding(model_id, vector))
            self._messages[key] = self._size.fit_revision(message)
        return message

    async def _split_snapshot(
        self, snapshot: Snapshot, request: service_pb.WatchPlaybookRequest
    ) -> AsyncIterator[service_pb.PlaybookPart]:
        """Yield the bullets in parts of at most `SNAPSHOT_PART` bullets and `max_part` bytes."""
        stored = snapshot.list_bullets()
        for start in range(0, max(1, len(stored)), SNAPSHOT_PART):
            async with self._building:
                began = time.monotonic()
                parts = await self._build_parts(snapshot, stored[start : start + SNAPSHOT_PART], request)
                await asyncio.sleep(time.monotonic() - began)
            parts[-1].last = start + SNAPSHOT_PART >= len(stored)
            for part in parts:
                yield part

    async def _build_parts(
        self, snapshot: Snapshot, stored: Sequence[StoredBullet], request: service_pb.WatchPlaybookRequest
    ) -> list[service_pb.PlaybookPart]:
        model_id, after = request.embedding_model_id, request.embeddings_after_revision
        vectors = await self._load_vectors([bullet for bullet in stored if bullet.touched_revision > after], model_id)
        parts = [_build_part(snapshot)]
        size = 0
        for bullet in stored:
            message = convert.encode_stored_bullet(bullet)
            embedding = convert.encode_embedding(model_id, _find_vector(bullet, vectors))
            added = message.ByteSize() + embedding.ByteSize()
            if parts[-1].playbook.bullets and size + added > self._size.max_part:
                parts.append(_build_part(snapshot))
                size = 0
            size += added
            parts[-1].playbook.bullets.append(message)
            if model_id:
                parts[-1].embeddings.append(embedding)
        return parts

    async def _load_vectors(self, stored: Sequence[StoredBullet | None], model_id: str) -> Mapping[str, Float32s]:
        """Return the stored vectors of these bullets, by text; none without a model id."""
        if not model_id:
            return {}
        texts = [_get_searched_text(bullet) for bullet in stored if bullet is not None and not bullet.bullet.retired]
        return await self._embedder.get_cached(texts, model_id)


def _build_part(snapshot: Snapshot) -> service_pb.PlaybookPart:
    committed_at = convert.encode_timestamp(snapshot.committed_at)
    return service_pb.PlaybookPart(playbook=convert.encode_playbook_head(snapshot), committed_at=committed_at)


def _find_vector(stored: StoredBullet | None, vectors: Mapping[str, Float32s]) -> Float32s | None:
    return None if stored is None or stored.bullet.retired else vectors.get(_get_searched_text(stored))


def _get_searched_text(stored: StoredBullet) -> str:
    return stored.bullet.searchable_text or stored.bullet.content
