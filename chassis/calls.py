"""The call being handled: who it is in logs and traces, for everything that runs on its behalf."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass

REQUEST_ID_KEY = "x-request-id"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(frozen=True, slots=True)
class Call:
    """One RPC: its full method and the id that all hops of one request share."""

    method: str
    request_id: str


current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)


def new_request_id() -> str:
    """A random id of 32 hexadecimal digits."""
    return os.urandom(16).hex()


def request_id() -> str:
    """The id of the request this code works for; a new one outside of any."""
    call = current_call.get()
    return call.request_id if call else new_request_id()


def request_id_from(metadata: Iterable[tuple[str, str | bytes]], request: object = None) -> str:
    """The id the caller sent, as metadata or as the `request_id` of a mutation; else a new one.

    It will stand in logs, so its shape is fixed.
    """
    for key, value in metadata:
        if key == REQUEST_ID_KEY and isinstance(value, str) and _REQUEST_ID.fullmatch(value):
            return value
    own = getattr(request, "request_id", "")
    return own if isinstance(own, str) and _REQUEST_ID.fullmatch(own) else new_request_id()
