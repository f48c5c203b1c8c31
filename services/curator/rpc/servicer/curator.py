"""hansei.curator.v1.CuratorService."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chassis.errors import NotFound, RequestIdReused
from hansei.curator.v1 import curator_service_pb2 as curator_pb
from hansei.curator.v1 import curator_service_pb2_grpc as curator_grpc
from libs.llm.usage import collect_usage, encode_usage
from libs.storage.idempotency import IdempotencyKey, find_scope
from services.curator.domain.log import StoredBullet
from services.curator.rpc.convert import playbook as convert
from services.curator.rpc.convert.curation import decode_reflection, encode_curation
from services.curator.rpc.servicer.message_size import MessageSize
from services.curator.rpc.servicer.mutation import encode_message
from services.curator.usecases.curate import Curation, CuratorAgent
from services.curator.usecases.near_bullets import NearBullets
from services.curator.usecases.ports import PlaybookStore


class CuratorServicer(curator_grpc.CuratorServiceServicer):
    """hansei.curator.v1.CuratorService."""

    def __init__(
        self, agent: CuratorAgent, store: PlaybookStore, size: MessageSize, near_bullets: NearBullets | None = None
    ) -> None:
        """`near_bullets` chooses bullets for a reflecting model; None: there is none."""
        self._agent = agent
        self._near_bullets = near_bullets
        self._store = store
        self._size = size

    async def Curate(self, request: curator_pb.CurateRequest, context: Any) -> bytes:  # type: ignore[override]
        """Curate one reflection and commit the edits. The stored bytes of the response are sent."""
        payload = encode_message(request)

        def encode(curation: Curation) -> bytes:
            response = encode_message(encode_curation(curation, encode_usage(usage)))
            self._size.require_sendable(payload, response)
            return response

        with collect_usage() as usage:
            return await self._agent.run_once(
                decode_reflection(request.reflection_result),
                request.dataset,
                IdempotencyKey.for_message(request, scope=find_scope(request.dataset)),
                encode,
                author=request.author,
                payload=payload,
                prepared_revision=request.prepared_revision if request.HasField("prepared_revision") else None,
            )

    async def PrepareCuration(
        self, request: curator_pb.PrepareCurationRequest, context: Any
    ) -> curator_pb.PrepareCurationResponse:
        """Return the committed curation of a request, else the bullets that its reflection needs."""
        snapshot, stored = await self._store.load_with_request(request.dataset, request.request_id, "Curate")
        if stored is not None:
            done, response = read_stored_curation(*stored)
            if done.dataset != request.dataset:
                raise RequestIdReused(request.request_id, f"dataset {done.dataset!r}")
            committed = curator_pb.CommittedCuration(reflection_result=done.reflection_result, response=response)
            return curator_pb.PrepareCurationResponse(committed=committed, revision=snapshot.revision)
        ids = frozenset(request.bullet_ids)
        if self._near_bullets is not None:
            chosen: Iterable[StoredBullet] = await self._near_bullets.choose(snapshot, ids, request.query)
        else:
            chosen = (stored for stored in snapshot.list_bullets() if stored.bullet.id in ids) if ids else ()
        bullets = self._size.fill_page(map(convert.encode_stored_bullet, chosen))
        return curator_pb.PrepareCurationResponse(bullets=bullets, revision=snapshot.revision)

    async def GetCuration(self, request: curator_pb.GetCurationRequest, context: Any) -> curator_pb.GetCurationResponse:
        """Return a committed curation with the reflection it came from."""
        stored = await self._store.find_request(request.dataset, request.request_id, "Curate")
        if stored is not None:
            done, response = read_stored_curation(*stored)
            if done.dataset == request.dataset:
                return curator_pb.GetCurationResponse(reflection_result=done.reflection_result, response=response)
        raise NotFound(
            f'dataset "{request.dataset}" has no curation with request_id "{request.request_id}"',
            reason="CURATION_NOT_FOUND",
        )


def read_stored_curation(payload: bytes, response: bytes) -> tuple[curator_pb.CurateRequest, curator_pb.CurateResponse]:
    """Return the request and the response of a committed curation."""
    return curator_pb.CurateRequest.FromString(payload), curator_pb.CurateResponse.FromString(response)
