"""Run a mutation once per request_id, and store its encoded response in the same transaction."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf.message import Message

from chassis.idempotency import normalize_request_id
from libs.storage.idempotency import IdempotencyKey
from services.curator.domain.log import Origin, RevisionKind
from services.curator.rpc.servicer.message_size import MessageSize
from services.curator.usecases.commit import run_once
from services.curator.usecases.ports import DatasetTransaction, PlaybookStore

DEFAULT_AUTHOR = "api"


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message: the same for equal messages."""
    return message.SerializeToString(deterministic=True)


def build_origin(kind: RevisionKind, request: object, source_trajectory: str = "") -> Origin:
    """Return the origin of a revision that a request makes."""
    author: str = getattr(request, "author", "")
    reason: str = getattr(request, "reason", "")
    request_id: str = getattr(request, "request_id", "")
    return Origin(kind, author or DEFAULT_AUTHOR, reason, normalize_request_id(request_id), source_trajectory)


async def mutate(
    store: PlaybookStore,
    dataset: str,
    key: IdempotencyKey,
    size: MessageSize,
    work: Callable[[DatasetTransaction], Message],
) -> bytes:
    """Return the encoded response of `work`, or the stored one when the request was done before.

    Raises ResponseTooLarge, and changes nothing, if the response could not be sent.
    """

    def encode(transaction: DatasetTransaction) -> bytes:
        response = encode_message(work(transaction))
        size.require_sendable(response)
        return response

    return await store.write(dataset, run_once(key, encode))
