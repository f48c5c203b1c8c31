"""Page tokens: opaque to clients and bound to their query.

A token holds a digest of the request that it continues and the cursor of the next page. With another filter, order or
dataset it is refused; only the page size may change between pages.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection
from datetime import datetime
from typing import Any

from google.protobuf.message import Message

from chassis.errors import InvalidArgument, Violation
from chassis.json_texts import has_surrogates
from libs.storage.timestamps import from_microseconds, to_microseconds

_PAGE_FIELDS = ("page_token", "page_size")
_DIGEST_BYTES = 8


class PageTokenInvalid(InvalidArgument):
    """The page token was not returned for this query."""

    reason = "PAGE_TOKEN_INVALID"

    def __init__(self) -> None:
        rule = "page_token must be the next_page_token of the previous page, with the rest of the request unchanged"
        super().__init__(rule, violations=[Violation("page_token", rule)])


def encode_page_token(
    request: Message, *cursor: str | int | datetime, ignored: Collection[str] = (), scope: str = ""
) -> str:
    """Return the token of the page that continues `request` after `cursor`.

    `ignored` names further fields of the request that may change between pages. `scope` binds the token to a part of
    the query that the request does not hold, such as the caller's tenant.
    """
    digest = _query_digest(request, ignored, scope)
    content = json.dumps(cursor, ensure_ascii=False, default=to_microseconds)
    return base64.urlsafe_b64encode(digest + content.encode()).decode()


def decode_page_token(
    request: Message, *kinds: type[str | int | datetime], ignored: Collection[str] = (), scope: str = ""
) -> tuple[Any, ...] | None:
    """Return the cursor of the page that `request` asks for, values of these kinds; None for the first page.

    Raises PageTokenInvalid for a token of another query, or none of ours.
    """
    token: str = getattr(request, "page_token", "")
    if not token:
        return None
    try:
        content = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
        digest, cursor = content[:_DIGEST_BYTES], json.loads(content[_DIGEST_BYTES:])
    except (ValueError, RecursionError):
        raise PageTokenInvalid from None
    if digest != _query_digest(request, ignored, scope):
        raise PageTokenInvalid
    if not isinstance(cursor, list) or len(cursor) != len(kinds):
        raise PageTokenInvalid
    return tuple(map(_decode_cursor_value, kinds, cursor))


def _decode_cursor_value(kind: type[str | int | datetime], value: Any) -> str | int | datetime:
    """Return a value with which a database can compare its rows: a text, a position or a time."""
    if type(value) is str and kind is str and not has_surrogates(value):
        return value
    if type(value) is int and kind is not str and 0 <= value < 2**63:
        try:
            return from_microseconds(value) if kind is datetime else value
        except OverflowError:
            pass
    raise PageTokenInvalid


def _query_digest(request: Message, ignored: Collection[str], scope: str) -> bytes:
    query = type(request)()
    query.CopyFrom(request)
    for field in (*_PAGE_FIELDS, *ignored):
        if field in query.DESCRIPTOR.fields_by_name:
            query.ClearField(field)
    name = f"{query.DESCRIPTOR.full_name}\n{scope}\n".encode()
    return hashlib.sha256(name + query.SerializeToString(deterministic=True)).digest()[:_DIGEST_BYTES]
