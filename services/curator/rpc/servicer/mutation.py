"""Run a mutation: once per request_id, its response stored with what it changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from chassis.idempotency import normalize_request_id
from libs.storage.idempotency import IdempotencyKey
from services.curator.domain.log import Kind, Origin
from services.curator.usecases.commit import run_once
from services.curator.usecases.ports import DatasetTransaction, PlaybookStore

M = TypeVar("M", bound=Message)
DEFAULT_AUTHOR = "api"


def written(message: Message) -> bytes:
    """The bytes of an answer: the same for the same answer."""
    return message.SerializeToString(deterministic=True)


def origin_of(kind: Kind, request: object, source_trajectory: str = "") -> Origin:
    """Who asks and why, as the request says."""
    author: str = getattr(request, "author", "")
    reason: str = getattr(request, "reason", "")
    request_id: str = getattr(request, "request_id", "")
    return Origin(kind, author or DEFAULT_AUTHOR, reason, normalize_request_id(request_id), source_trajectory)


async def mutate(
    store: PlaybookStore, dataset: str, key: IdempotencyKey, work: Callable[[DatasetTransaction], M], response: type[M]
) -> M:
    """Return the response of `work`, done now or, for a repeated request, before."""
    stored = await store.write(dataset, run_once(key, lambda transaction: written(work(transaction))))
    return response.FromString(stored)
