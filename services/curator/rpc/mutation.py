"""How a mutation runs: once per request_id, its answer stored with what it changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from services.curator.domain.log import Kind, Origin
from services.curator.usecases.commit import once
from services.curator.usecases.ports import PlaybookStore, Ticket, Writing

M = TypeVar("M", bound=Message)
DEFAULT_AUTHOR = "api"


def ticket_for(request_id: str, request: Message, method: str) -> Ticket:
    """The ticket of a request; its digest covers every field, unknown ones included."""
    payload = request.SerializeToString(deterministic=True)
    return Ticket(request_id, method, hashlib.sha256(payload).hexdigest())


def written(message: Message) -> bytes:
    """The bytes of an answer: the same for the same answer."""
    return message.SerializeToString(deterministic=True)


def origin_of(kind: Kind, request: object, source_trajectory: str = "") -> Origin:
    """Who asks and why, as the request says."""
    author: str = getattr(request, "author", "")
    reason: str = getattr(request, "reason", "")
    request_id: str = getattr(request, "request_id", "")
    return Origin(kind, author or DEFAULT_AUTHOR, reason, request_id, source_trajectory)


async def mutate(
    store: PlaybookStore, dataset: str, ticket: Ticket, work: Callable[[Writing], M], response: type[M]
) -> M:
    """The answer of `work`, done now or, for a repeated ticket, before."""
    stored = await store.write(dataset, once(ticket, lambda writing: written(work(writing))))
    return response.FromString(stored)
