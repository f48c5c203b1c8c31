"""A curator in this process with a client over gRPC, and short functions for frequent calls of playbook tests."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import chassis
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import playbook_service_pb2_grpc as playbook_grpc
from hansei.playbook.v1 import review_pb2
from services.curator.bootstrap import build
from services.curator.settings import CuratorSettings

if TYPE_CHECKING:
    from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceAsyncStub as Stub


@asynccontextmanager
async def curator(folder: Path, max_message_bytes: int = 16 * 1024 * 1024) -> AsyncIterator[Stub]:
    """A client of a curator that keeps its playbooks in `folder`; neither takes larger messages."""
    settings = CuratorSettings(
        llm_provider="offline",
        embedding_provider="hashing",
        playbook_data_dir=str(folder),
        curator_feed_poll_seconds=0.05,
        lame_duck_seconds=0,
        drain_grace_seconds=5,
        max_message_bytes=max_message_bytes,
    )
    async with chassis.serve(build(settings, chassis.Peers({})), settings=settings) as running:
        clients = chassis.Peers({"curator": running.address}, max_message_bytes=max_message_bytes)
        yield playbook_grpc.PlaybookServiceStub(clients.get_channel("curator"))
        await clients.close()


def new_id() -> str:
    return str(uuid.uuid4())


def add(content: str, section: str = "general") -> pb.Delta:
    return pb.Delta(type=pb.DELTA_TYPE_ADD, section=section, content=content, reasoning="why")


def update(bullet_id: str, content: str) -> pb.Delta:
    return pb.Delta(type=pb.DELTA_TYPE_UPDATE, bullet_id=bullet_id, content=content)


def delete(bullet_id: str) -> pb.Delta:
    return pb.Delta(type=pb.DELTA_TYPE_DELETE, bullet_id=bullet_id)


def vote(bullet_id: str, trajectory: str, tag: pb.VoteTag.ValueType = pb.VOTE_TAG_HELPFUL) -> pb.Vote:
    return pb.Vote(bullet_id=bullet_id, tag=tag, trajectory_id=trajectory)


async def apply(
    stub: Stub,
    *deltas: pb.Delta,
    votes: Sequence[pb.Vote] = (),
    trajectory: str = "",
    base: int | None = None,
    author: str = "",
    dataset: str = "d",
) -> service_pb.ApplyDeltasResponse:
    request = service_pb.ApplyDeltasRequest(
        request_id=new_id(),
        dataset=dataset,
        deltas=deltas,
        votes=votes,
        source_trajectory=trajectory,
        base_revision=base,
        author=author,
    )
    return await stub.ApplyDeltas(request)


async def playbook(stub: Stub, revision: int | None = None, dataset: str = "d") -> pb.Playbook:
    request = service_pb.GetPlaybookRequest(dataset=dataset)
    if revision is not None:
        request.revision = revision
    return (await stub.GetPlaybook(request)).playbook


async def contents(stub: Stub, revision: int | None = None, dataset: str = "d") -> list[str]:
    return [bullet.content for bullet in (await playbook(stub, revision, dataset)).bullets]


async def set_policy(stub: Stub, **rules: Any) -> None:
    policy = review_pb2.DatasetPolicy(**rules)
    await stub.SetPolicy(service_pb.SetPolicyRequest(request_id=new_id(), dataset="d", policy=policy))


async def import_file(
    stub: Stub,
    content: bytes,
    *,
    dataset: str = "d",
    replace: bool = True,
    request_id: str = "",
    form: service_pb.PlaybookFormat.ValueType = service_pb.PLAYBOOK_FORMAT_UNSPECIFIED,
) -> service_pb.ImportPlaybookResponse:
    head = service_pb.ImportHead(request_id=request_id or new_id(), dataset=dataset, replace=replace, format=form)
    parts = [content[at : at + 50_000] for at in range(0, len(content), 50_000)]
    requests = [service_pb.ImportPlaybookRequest(head=head)]
    requests += [service_pb.ImportPlaybookRequest(chunk=part) for part in parts]

    async def stream_requests() -> AsyncIterator[service_pb.ImportPlaybookRequest]:
        for request in requests:
            yield request

    return await stub.ImportPlaybook(stream_requests())


async def export_file(stub: Stub, format_: service_pb.PlaybookFormat.ValueType, dataset: str = "d") -> bytes:
    request = service_pb.ExportPlaybookRequest(dataset=dataset, format=format_)
    return b"".join([response.chunk async for response in stub.ExportPlaybook(request)])


async def watch_events(
    stub: Stub, count: int, from_revision: int = 0, *, snapshot: bool = False, **fields: Any
) -> list[service_pb.WatchPlaybookResponse]:
    """Return the first `count` events other than `progress`."""
    request = service_pb.WatchPlaybookRequest(
        dataset="d", from_revision=from_revision, snapshot=snapshot, allow_missing=True, **fields
    )
    call = cast("AsyncGenerator[service_pb.WatchPlaybookResponse, None]", stub.WatchPlaybook(request))
    events: list[service_pb.WatchPlaybookResponse] = []
    async for event in call:
        if event.WhichOneof("event") != "progress":
            events.append(event)
        if len(events) == count:
            break
    await call.aclose()
    return events
