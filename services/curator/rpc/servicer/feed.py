"""PlaybookService: the change feed, with the vectors of what changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from cachetools import LRUCache

from chassis.errors import OutOfRange
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from libs.embedding.embedder import TextEmbedder
from libs.embedding.model import Float32s
from services.curator.domain.log import Revision, Stored
from services.curator.domain.snapshot import Snapshot
from services.curator.rpc.convert import playbook as convert
from services.curator.usecases.watch import Watch

# Below what gRPC lets through, so that an event always arrives.
MAX_EVENT_BYTES = 15 * 1024 * 1024
SNAPSHOT_PART_BYTES = 4 * 1024 * 1024
SNAPSHOT_PART = 1_000
CACHED_MESSAGES = 256


class PlaybookFeed:
    """WatchPlaybook."""

    def __init__(self, watch: Watch, embedder: TextEmbedder) -> None:
        self._watch = watch
        self._embedder = embedder
        self._messages: LRUCache[tuple[str, int, str], pb.Revision] = LRUCache(CACHED_MESSAGES)

    async def WatchPlaybook(
        self, request: service_pb.WatchPlaybookRequest, context: Any
    ) -> AsyncIterator[service_pb.WatchPlaybookResponse]:
        """The change feed of a dataset."""
        events = self._watch.events(request.dataset, request.from_revision, snapshot=request.snapshot)
        async for event in events:
            if isinstance(event, Revision):
                message = await self._revision_message(event, request.embedding_model_id)
                yield service_pb.WatchPlaybookResponse(revision=message)
            elif isinstance(event, Snapshot):
                async for part in self._snapshot_parts(event, request):
                    yield service_pb.WatchPlaybookResponse(snapshot=part)
            else:
                yield service_pb.WatchPlaybookResponse(progress=service_pb.Progress(revision=event.revision))

    async def _revision_message(self, revision: Revision, model_id: str) -> pb.Revision:
        """Return the message of a revision, made once for all its watchers. Raises `OutOfRange` for a too large one."""
        key = (revision.dataset, revision.number, model_id)
        message = self._messages.get(key)
        if message is None:
            message = convert.revision_message(revision)
            vectors = await self._vectors([change.after for change in revision.changes], model_id)
            for change, own in zip(revision.changes, message.changes, strict=True):
                if (vector := _vector_of(change.after, vectors)) is not None:
                    own.embedding.CopyFrom(convert.embedding_message(model_id, vector))
            self._messages[key] = message
        if message.ByteSize() > MAX_EVENT_BYTES:
            raise OutOfRange(
                f"revision {revision.number} is too large for one event: watch again with `snapshot`",
                reason="REVISION_TOO_LARGE",
                metadata={"revision": str(revision.number)},
            )
        return message

    async def _snapshot_parts(
        self, snapshot: Snapshot, request: service_pb.WatchPlaybookRequest
    ) -> AsyncIterator[service_pb.PlaybookPart]:
        """Yield the bullets in parts of at most `SNAPSHOT_PART` bullets and about `SNAPSHOT_PART_BYTES`."""
        stored = snapshot.everything()
        model_id, after = request.embedding_model_id, request.embeddings_after_revision
        part = service_pb.PlaybookPart(playbook=convert.playbook_part(snapshot, []))
        for start in range(0, len(stored), SNAPSHOT_PART):
            some = stored[start : start + SNAPSHOT_PART]
            vectors = await self._vectors([one for one in some if one.touched > after], model_id)
            size = 0
            for one in some:
                if size > SNAPSHOT_PART_BYTES:
                    yield part
                    part, size = service_pb.PlaybookPart(playbook=convert.playbook_part(snapshot, [])), 0
                bullet = convert.stored_message(one)
                embedding = convert.embedding_message(model_id, _vector_of(one, vectors))
                part.playbook.bullets.append(bullet)
                if model_id:
                    part.embeddings.append(embedding)
                size += bullet.ByteSize() + len(embedding.values)
            if start + SNAPSHOT_PART < len(stored):
                yield part
                part = service_pb.PlaybookPart(playbook=convert.playbook_part(snapshot, []))
        part.last = True
        yield part

    async def _vectors(self, stored: list[Stored] | list[Stored | None], model_id: str) -> Mapping[str, Float32s]:
        """Return the vectors that the store has of these bullets, by text; none for a watcher that wants none."""
        if not model_id:
            return {}
        texts = [_searched_text(one) for one in stored if one is not None and not one.bullet.retired]
        return await self._embedder.cached(texts, model_id)


def _vector_of(stored: Stored | None, vectors: Mapping[str, Float32s]) -> Float32s | None:
    return None if stored is None or stored.bullet.retired else vectors.get(_searched_text(stored))


def _searched_text(stored: Stored) -> str:
    return stored.bullet.searchable_text or stored.bullet.content
