"""Send the change feed of a dataset, with the vectors of changed bullets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from cachetools import LRUCache

from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from libs.embedding.embedder import TextEmbedder
from libs.embedding.model import Float32s
from services.curator.domain.log import Revision, RevisionKind, StoredBullet
from services.curator.domain.snapshot import Snapshot
from services.curator.rpc.convert import playbook as convert
from services.curator.rpc.servicer.message_size import MessageSize
from services.curator.usecases.watch import Watch

SNAPSHOT_PART = 1_000
CACHED_MESSAGES = 256


class PlaybookFeed:
    """The method WatchPlaybook of PlaybookService."""

    def __init__(self, watch: Watch, embedder: TextEmbedder, size: MessageSize) -> None:
        self._watch = watch
        self._size = size
        self._embedder = embedder
        self._messages: LRUCache[tuple[str, int, str], pb.Revision] = LRUCache(CACHED_MESSAGES)

    async def WatchPlaybook(
        self, request: service_pb.WatchPlaybookRequest, context: Any
    ) -> AsyncIterator[service_pb.WatchPlaybookResponse]:
        """Yield the change feed of a dataset."""
        events = self._watch.events(
            request.dataset, request.from_revision, snapshot=request.snapshot, allow_missing=request.allow_missing
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
                if (vector := _decode_vector(change.after, vectors)) is not None:
                    change_message.embedding.CopyFrom(convert.encode_embedding(model_id, vector))
            self._messages[key] = self._size.fit_revision(message)
        return message

    async def _split_snapshot(
        self, snapshot: Snapshot, request: service_pb.WatchPlaybookRequest
    ) -> AsyncIterator[service_pb.PlaybookPart]:
        """Yield the bullets in parts of at most `SNAPSHOT_PART` bullets and `max_part` bytes."""
        stored = snapshot.all_bullets()
        model_id, after = request.embedding_model_id, request.embeddings_after_revision
        part = service_pb.PlaybookPart(playbook=convert.encode_playbook_part(snapshot, []))
        for start in range(0, len(stored), SNAPSHOT_PART):
            batch = stored[start : start + SNAPSHOT_PART]
            vectors = await self._load_vectors(
                [bullet for bullet in batch if bullet.touched_revision > after], model_id
            )
            size = 0
            for bullet in batch:
                message = convert.encode_stored_bullet(bullet)
                embedding = convert.encode_embedding(model_id, _decode_vector(bullet, vectors))
                size += message.ByteSize() + embedding.ByteSize()
                if part.playbook.bullets and size > self._size.max_part:
                    yield part
                    part = service_pb.PlaybookPart(playbook=convert.encode_playbook_part(snapshot, []))
                    size = message.ByteSize() + embedding.ByteSize()
                part.playbook.bullets.append(message)
                if model_id:
                    part.embeddings.append(embedding)
            if start + SNAPSHOT_PART < len(stored):
                yield part
                part = service_pb.PlaybookPart(playbook=convert.encode_playbook_part(snapshot, []))
        part.last = True
        yield part

    async def _load_vectors(
        self, stored: list[StoredBullet] | list[StoredBullet | None], model_id: str
    ) -> Mapping[str, Float32s]:
        """Return the stored vectors of these bullets, by text; none without a model id."""
        if not model_id:
            return {}
        texts = [_get_searched_text(bullet) for bullet in stored if bullet is not None and not bullet.bullet.retired]
        return await self._embedder.get_cached(texts, model_id)


def _decode_vector(stored: StoredBullet | None, vectors: Mapping[str, Float32s]) -> Float32s | None:
    return None if stored is None or stored.bullet.retired else vectors.get(_get_searched_text(stored))


def _get_searched_text(stored: StoredBullet) -> str:
    return stored.bullet.searchable_text or stored.bullet.content
