"""The change feed of the playbook store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from services.search.domain.bullet import Bullet
from services.search.domain.feed import Alive, Change, Committed, Event, Snapshot


class CuratorFeed:
    """Follows playbooks over gRPC. `channel` leads to the curator."""

    def __init__(self, channel: Any) -> None:
        self._playbooks = playbook_service_pb2_grpc.PlaybookServiceStub(channel)

    async def watch(self, dataset: str, after: int | None) -> AsyncIterator[Event]:
        """Every revision after `after`, without end; None begins with a snapshot. Raises `HanseiError`."""
        request = playbook_service_pb2.WatchPlaybookRequest(
            dataset=dataset, from_revision=after or 0, snapshot=after is None
        )
        parts: list[Bullet] = []
        async for response in self._playbooks.WatchPlaybook(request):
            match response.WhichOneof("event"):
                case "snapshot":
                    part = response.snapshot
                    parts.extend(bullet_from(bullet) for bullet in part.playbook.bullets)
                    if part.last:
                        yield Snapshot(part.playbook.revision, parts)
                        parts = []
                case "revision":
                    yield _committed(response.revision)
                case "progress":
                    yield Alive(response.progress.revision)


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


def _committed(revision: playbook_pb2.Revision) -> Committed:
    return Committed(
        revision.revision,
        [
            Change(
                change.bullet_id,
                bullet_from(change.after) if change.HasField("after") else None,
                change.position,
            )
            for change in revision.changes
        ],
    )
