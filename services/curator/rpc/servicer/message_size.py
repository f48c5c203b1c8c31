"""Keep messages below the size that gRPC transports: pages, and revisions without the parts that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from hansei.playbook.v1 import playbook_pb2 as pb
from services.curator.domain.errors import ResponseTooLarge

M = TypeVar("M", bound=Message)

_FRAME_BYTES = 8
"""At most these many bytes precede a message in a repeated field."""


@dataclass(frozen=True, slots=True)
class MessageSize:
    """The sizes of messages, in bytes, for a limit of gRPC of `limit` bytes."""

    limit: int

    @property
    def max_page(self) -> int:
        """Return the size from which a page is full."""
        return self.limit // 2

    @property
    def max_part(self) -> int:
        """Return the size from which a part of a snapshot is full: a receiver keeps all parts until the last."""
        return self.limit // 4

    @property
    def max_message(self) -> int:
        """Return the largest size of a part of a response or event; the rest is for its other fields."""
        return self.limit * 15 // 16

    def fill_page(self, messages: Iterable[M], most: int | None = None) -> list[M]:
        """Return the first `most` messages (None = all), fewer if the page is full before, at least one."""
        page: list[M] = []
        size = 0
        for message in messages:
            size += message.ByteSize() + _FRAME_BYTES
            if page and (size > self.max_page or len(page) == most):
                break
            page.append(message)
        return page

    def fit_revision(self, message: pb.Revision) -> pb.Revision:
        """Return the revision, which is changed to fit a message.

        The texts of applied deltas go first, because the changes have them; then changes, operations and votes from
        the ends of their lists, whose numbers are in `omitted`.
        """
        if message.ByteSize() <= self.max_message:
            return message
        for operation in message.operations:
            if operation.applied:
                operation.delta.content = ""
        excess = message.ByteSize() - self.max_message
        for field in ("changes", "operations", "votes"):
            parts = getattr(message, field)
            count = 0
            while excess > 0 and count < len(parts):
                count += 1
                excess -= parts[-count].ByteSize()
            if count:
                del parts[-count:]
                setattr(message.omitted, field, count)
        return message

    def require_sendable(self, *parts: bytes) -> None:
        """Raise ResponseTooLarge if the encoded parts of a response do not fit a message together."""
        size = sum(map(len, parts))
        if size > self.max_message:
            raise ResponseTooLarge(size, self.max_message)


def count_omitted(all_messages: Sequence[object], page: Sequence[object]) -> int:
    """Return the number of messages that a page leaves out."""
    return len(all_messages) - len(page)
