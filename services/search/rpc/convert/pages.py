"""Page tokens of rankings."""

from __future__ import annotations

from google.protobuf.message import Message

from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.search.usecases.pinned_rankings import PageCursor

DEFAULT_PAGE = 100
_CHANGEABLE = ("min_revision",)
"""Fields of a search that may change between pages of its ranking."""


def encode_cursor(request: Message, cursor: PageCursor | None) -> str:
    """Return the token of the next page of a ranking; empty if there is none."""
    if cursor is None:
        return ""
    return encode_page_token(
        request, cursor.ranking_id, cursor.revision, cursor.model, cursor.offset, ignored=_CHANGEABLE
    )


def decode_cursor(request: Message) -> PageCursor | None:
    """Return the start of the page that a request asks for; None for the first. Raises PageTokenInvalid."""
    values = decode_page_token(request, str, int, str, int, ignored=_CHANGEABLE)
    return None if values is None else PageCursor(*values)
