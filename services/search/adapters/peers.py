"""The change feed of the playbook store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from libs.embedding.model import Float32s
from services.search.domain.bullet import Bullet
from services.search.domain.feed import Alive, Change, Committed, Event, Snapshot


class CuratorFeed:
    """Follows playbooks over gRPC, with vectors of one model. `channel` leads to the curator."""

    def __init__(self, channel: Any, model_id: str) -> None:
        self._playbooks = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
        self._model_id = model_id

    async def watch(self, dataset: str, after: int | None, held: int = 0) -> AsyncIterator[Event]:
        """Yield every revision after `after`, without end; None begins with a snapshot. Raises `HanseiError`."""
        request = playbook_service_pb2.WatchPlaybookRequest(
            dataset=dataset,
            from_revision=after or 0,
            snapshot=after is None,
            embedding_model_id=self._model_id,
            embeddings_after_revision=held,
        )
        parts: list[Bullet] = []
        vectors: dict[str, Float32s] = {}
        async for response in self._playbooks.WatchPlaybook(request):
            match response.WhichOneof("event"):
                case "snapshot":
                    part = response.snapshot
                    bullets = [bullet_from(bullet) for bullet in part.playbook.bullets]
                    for bullet, embedding in zip(bullets, part.embeddings, strict=False):
                        self._take(vectors, bullet, embedding)
                    parts.extend(bullets)
                    if part.last:
                        yield Snapshot(part.playbook.revision, parts, vectors)
                        parts, vectors = [], {}
                case "revision":
                    yield self._committed(response.revision)
                case "progress":
                    yield Alive(response.progress.revision)

    def _committed(self, revision: playbook_pb2.Revision) -> Committed:
        changes: list[Change] = []
        vectors: dict[str, Float32s] = {}
        for change in revision.changes:
            bullet = bullet_from(change.after) if change.HasField("after") else None
            changes.append(Change(change.bullet_id, bullet, change.position))
            if bullet is not None:
                self._take(vectors, bullet, change.embedding)
        return Committed(revision.revision, changes, vectors)

    def _take(self, vectors: dict[str, Float32s], bullet: Bullet, embedding: playbook_pb2.Embedding) -> None:
        """Add the vector of a bullet's text, if it was sent, is of the own model, and is whole and finite."""
        if embedding.model_id != self._model_id or len(embedding.values) != 4 * embedding.dimension:
            return
        vector = np.frombuffer(embedding.values, "<f4")
        if len(vector) and np.isfinite(vector).all():
            vectors[bullet.searchable_text] = vector


def bullet_of_bytes(origin: bytes) -> Bullet:
    """The bullet that `origin` holds, as the curator sent it."""
    return bullet_from(playbook_pb2.Bullet.FromString(origin), origin)


def bullet_from(message: playbook_pb2.Bullet, origin: bytes | None = None) -> Bullet:
    """The domain's bullet; a bullet without `searchable_text` is searched by its content."""
    return Bullet(
        id=message.id,
        section=message.section,
        content=message.content,
        searchable_text=message.searchable_text or message.content,
        keywords=tuple(message.keywords),
        helpful=message.helpful,
        harmful=message.harmful,
        source_trajectory=message.source_trajectory,
        served=message.state != playbook_pb2.BULLET_STATE_RETIRED,
        origin=message.SerializeToString() if origin is None else origin,
    )
