"""The idempotency key of a mutation: a UUID in the contract field `request_id` (AIP-155).

The edge normalizes it before anything reads it, so two spellings of one UUID are one key in every service.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

FIELD = "request_id"
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def find_key_holder(message: Message) -> Any:
    """Return the message with the key: this one, or one that it wraps (`head`, `learn`); None without a key."""
    path = find_key_path(message.DESCRIPTOR)
    if path is None:
        return None
    if not path:
        return message
    return next((getattr(message, name) for name in path if message.HasField(name)), None)


def normalize_key(message: Message) -> str:
    """Set the key of a request to lower case and return it; empty without a key, or if it is no UUID."""
    holder = find_key_holder(message)
    if holder is None or not is_key(holder.request_id):
        return ""
    key = normalize_request_id(holder.request_id)
    if key != holder.request_id:
        holder.request_id = key
    return key


def normalize_request_id(request_id: str) -> str:
    """Return the form in which keys are compared and stored."""
    return request_id.lower()


def is_key(text: str) -> bool:
    """Return whether a text can be a key."""
    return _UUID.fullmatch(text) is not None


@cache
def find_key_path(kind: Descriptor) -> tuple[str, ...] | None:
    """Return the fields that may wrap the key; none if the message type has it itself; None if it has no key."""
    if FIELD in kind.fields_by_name:
        return ()
    wrapping = (field for field in kind.fields if (inner := field.message_type) and FIELD in inner.fields_by_name)
    return tuple(field.name for field in wrapping if not field.is_repeated) or None
