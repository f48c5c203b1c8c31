"""Submission of a job: head, then batches; stored while it arrives, and a job only once it is complete."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator

from chassis.errors import InvalidArgument, Violation
from gateway.bulk.domain.job import NewJob
from gateway.bulk.usecases.ports import SubmissionStore
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import bulk_service_pb2 as service
from libs.storage.idempotency import IdempotencyKey
from libs.trajectories.content import reduce_to_content

METHOD = "SubmitTrajectories"
_SCOPE = "job/"
"""A job's id is the id of its request, and may be that of a request of another method as well."""

Requests = AsyncIterator[service.SubmitTrajectoriesRequest]


async def submit_job(store: SubmissionStore, requests: Requests) -> tuple[str, str | None]:
    """Store the job that a stream submits. Return its id and key; no key if it was accepted before.

    Raises InvalidArgument, QueueFull, RequestIdReused; then nothing of the stream is stored.
    """
    head = await _read_job_head(requests)
    if await store.exists(head.request_id):
        digest, _ = await _read_batches(requests, head, None, "")
        await store.check_accepted(_build_idempotency_key(head, digest))
        return head.request_id, None
    key = uuid.uuid4().hex
    max_iterations = head.max_iterations if head.HasField("max_iterations") else None
    await store.begin(key, NewJob(head.request_id, head.dataset, max_iterations))
    try:
        digest, total = await _read_batches(requests, head, store, key)
        if not total:
            raise _build_invalid_stream("batch", "a job needs at least one trajectory")
        is_new = await store.accept(key, _build_idempotency_key(head, digest))
    except BaseException:
        await store.discard(key)
        raise
    if not is_new:
        await store.discard(key)
    return head.request_id, key if is_new else None


def _build_idempotency_key(head: service.JobHead, digest: bytes) -> IdempotencyKey:
    return IdempotencyKey(head.request_id, METHOD, digest, _SCOPE)


async def _read_job_head(requests: Requests) -> service.JobHead:
    async for request in requests:
        if request.WhichOneof("part") == "head":
            return request.head
        break
    raise _build_invalid_stream("head", "the first message must contain `head`")


async def _read_batches(
    requests: Requests, head: service.JobHead, store: SubmissionStore | None, key: str
) -> tuple[bytes, int]:
    """Return digest and number of the trajectories of a stream, and store them in `store`."""
    digest = hashlib.sha256(head.SerializeToString(deterministic=True))
    total = 0
    async for request in requests:
        if request.WhichOneof("part") != "batch":
            raise _build_invalid_stream("head", "only the first message may be the head")
        for offset, item in enumerate(request.batch.trajectories):
            _check_dataset(head, total + offset, item)
            content = _copy_content(item).SerializeToString(deterministic=True)
            digest.update(len(content).to_bytes(8) + content)
        if store is not None:
            payloads = [(item.trajectory.id, item.SerializeToString()) for item in request.batch.trajectories]
            await store.stage(key, total, payloads)
        total += len(request.batch.trajectories)
    return digest.digest(), total


def _copy_content(item: bulk.QueuedTrajectory) -> bulk.QueuedTrajectory:
    """Return a copy with the content of the trajectories alone, so that the same file is the same job."""
    copy = bulk.QueuedTrajectory()
    copy.CopyFrom(item)
    for trajectory in (copy.trajectory, *copy.siblings):
        reduce_to_content(trajectory)
    return copy


def _check_dataset(head: service.JobHead, index: int, item: bulk.QueuedTrajectory) -> None:
    if item.trajectory.dataset != head.dataset:
        rule = f"is {item.trajectory.dataset!r}, but the job is for {head.dataset!r}"
        violation = Violation(f"trajectories[{index}].trajectory.dataset", rule)
        raise InvalidArgument("dataset mismatch", violations=[violation])


def _build_invalid_stream(field: str, rule: str) -> InvalidArgument:
    return InvalidArgument(rule, violations=[Violation(field, rule)])
