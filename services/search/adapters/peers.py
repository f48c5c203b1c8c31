"""The change feed of the playbook store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import numpy as np

from chassis.pages import iterate_pages
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from libs.embedding.model import Float32s
from services.search.domain.bullet import IndexedBullet
from services.search.domain.feed import BulletChange, CommittedRevision, Event, FeedProgress, PlaybookSnapshot


class CuratorFeed:
    """Follows playbooks over gRPC, with vectors of one model. `channel` is connected to the curator."""

    def __init__(self, channel: Any, model_id: str) -> None:
        self._playbooks = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
        self._model_id = model_id

    async def watch(
        self, dataset: str, after: int | None, embedded_revision: int = 0, committed_at: datetime | None = None
    ) -> AsyncIterator[Event]:
        """Yield every revision after `after`, without end; None begins with a snapshot. Raises `HanseiError`."""
        request = playbook_service_pb2.WatchPlaybookRequest(
            dataset=dataset,
            from_revision=after or 0,
            snapshot=after is None,
            embedding_model_id=self._model_id,
            embeddings_after_revision=embedded_revision,
            allow_missing=True,
        )
        if committed_at is not None:
            request.from_committed_at.FromDatetime(committed_at)
        parts: list[IndexedBullet] = []
        vectors: dict[str, Float32s] = {}
        async for response in self._playbooks.WatchPlaybook(request):
            match response.WhichOneof("event"):
                case "snapshot":
                    part = response.snapshot
                    bullets = [decode_bullet(bullet) for bullet in part.playbook.bullets]
                    for bullet, embedding in zip(bullets, part.embeddings, strict=False):
                        self._add_vector(vectors, bullet, embedding)
                    parts.extend(bullets)
                    if part.last:
                        yield PlaybookSnapshot(part.playbook.revision, parts, vectors, _read_time(part, "committed_at"))
                        parts, vectors = [], {}
                case "revision" if response.revision.kind == playbook_pb2.REVISION_KIND_DELETE:
                    yield PlaybookSnapshot(
                        response.revision.revision, [], committed_at=_read_time(response.revision, "committed_at")
                    )
                case "revision":
                    yield self._decode_revision(response.revision)
                case "progress":
                    yield FeedProgress(response.progress.revision)

    async def require_dataset(self, dataset: str) -> None:
        """Raise the curator's `NotFound`, with similar names, unless the dataset exists."""
        call: Any = self._playbooks.GetDataset
        await call(playbook_service_pb2.GetDatasetRequest(dataset=dataset))

    async def list_deletions(self) -> dict[str, int]:
        """Return the revisions of the deletions of playbooks, by dataset. Raises `HanseiError`."""
        request = playbook_service_pb2.ListDatasetsRequest(page_size=1000, deleted=True)
        return {
            dataset.name: dataset.deleted_revision
            async for page in iterate_pages(self._playbooks.ListDatasets, request)
            for dataset in page.datasets
        }

    def _decode_revision(self, revision: playbook_pb2.Revision) -> CommittedRevision:
        changes: list[BulletChange] = []
        vectors: dict[str, Float32s] = {}
        for change in revision.changes:
            bullet = decode_bullet(change.after) if change.HasField("after") else None
            is_new = not change.HasField("before")
            changes.append(BulletChange(change.bullet_id, bullet, change.position, is_new))
            if bullet is not None:
                self._add_vector(vectors, bullet, change.embedding)
        return CommittedRevision(revision.revision, changes, vectors, _read_time(revision, "committed_at"))

    def _add_vector(
        self, vectors: dict[str, Float32s], bullet: IndexedBullet, embedding: playbook_pb2.Embedding
    ) -> None:
        """Add the vector of a bullet's text if it was sent, is of the requested model, complete and finite."""
        if embedding.model_id != self._model_id or len(embedding.values) != 4 * embedding.dimension:
            return
        vector = np.frombuffer(embedding.values, "<f4")
        if len(vector) and np.isfinite(vector).all():
            vectors[bullet.searchable_text] = vector


def _read_time(message: Any, field: str) -> datetime | None:
    return getattr(message, field).ToDatetime(UTC) if message.HasField(field) else None


def parse_bullet(serialized_form: bytes) -> IndexedBullet:
    """Parse a bullet from the bytes that the curator sent."""
    return decode_bullet(playbook_pb2.Bullet.FromString(serialized_form), serialized_form)


def decode_bullet(message: playbook_pb2.Bullet, serialized_form: bytes | None = None) -> IndexedBullet:
    """Return the bullet of a message; without `searchable_text` its content is searched."""
    return IndexedBullet(
        id=message.id,
        section=message.section,
        content=message.content,
        searchable_text=message.searchable_text or message.content,
        keywords=tuple(message.keywords),
        helpful=message.helpful,
        harmful=message.harmful,
        source_trajectory=message.source_trajectory,
        is_served=message.state != playbook_pb2.BULLET_STATE_RETIRED,
        serialized_form=message.SerializeToString() if serialized_form is None else serialized_form,
    )
