"""The owner of one playbook, as far as search sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

import chassis
from chassis.errors import NotFound
from hansei.playbook.v1 import playbook_pb2
from hansei.playbook.v1 import playbook_service_pb2 as feed


class PlaybookFeed:
    """The change feed of one playbook over gRPC."""

    def __init__(self) -> None:
        self.revisions: list[playbook_pb2.Revision] = []
        self.exists = True
        self.watched = asyncio.Event()
        self._grown = asyncio.Event()

    def commit(self, *changes: playbook_pb2.BulletChange) -> int:
        self.revisions.append(playbook_pb2.Revision(dataset="d", revision=len(self.revisions) + 1, changes=changes))
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()
        return len(self.revisions)

    def add(self, *bullets: playbook_pb2.Bullet) -> int:
        return self.commit(
            *(playbook_pb2.BulletChange(bullet_id=b.id, after=b, position=100 + i) for i, b in enumerate(bullets))
        )

    async def watch(
        self, request: feed.WatchPlaybookRequest, context: Any
    ) -> AsyncIterator[feed.WatchPlaybookResponse]:
        self.watched.set()
        sent = request.from_revision
        if request.snapshot:
            sent = len(self.revisions)
            now = playbook_pb2.Playbook(dataset=request.dataset, revision=sent, bullets=self._bullets())
            yield feed.WatchPlaybookResponse(snapshot=feed.PlaybookPart(playbook=now, last=True))
        while True:
            grown = self._grown
            while sent < len(self.revisions):
                yield feed.WatchPlaybookResponse(revision=self.revisions[sent])
                sent += 1
            await grown.wait()

    async def get_dataset(self, request: feed.GetDatasetRequest, context: Any) -> feed.GetDatasetResponse:
        if not self.exists:
            raise NotFound(f'dataset "{request.dataset}" does not exist', reason="DATASET_NOT_FOUND")
        return feed.GetDatasetResponse()

    def _bullets(self) -> list[playbook_pb2.Bullet]:
        bullets: dict[str, playbook_pb2.Bullet] = {}
        for change in (change for revision in self.revisions for change in revision.changes):
            if change.HasField("after"):
                bullets[change.bullet_id] = change.after
            else:
                bullets.pop(change.bullet_id, None)
        return list(bullets.values())

    def service(self) -> chassis.Service:
        handlers = {
            "WatchPlaybook": grpc.unary_stream_rpc_method_handler(
                self.watch,
                request_deserializer=feed.WatchPlaybookRequest.FromString,
                response_serializer=feed.WatchPlaybookResponse.SerializeToString,
            ),
            "GetDataset": grpc.unary_unary_rpc_method_handler(
                self.get_dataset,
                request_deserializer=feed.GetDatasetRequest.FromString,
                response_serializer=feed.GetDatasetResponse.SerializeToString,
            ),
        }

        def add(_: object, server: Any) -> None:
            server.add_registered_method_handlers("hansei.playbook.v1.PlaybookService", handlers)

        registration = chassis.Registration(add, self, endless=["WatchPlaybook"])
        return chassis.Service(name="curator", registrations=[registration])
