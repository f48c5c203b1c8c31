"""Cursors of rankings in page tokens."""

from __future__ import annotations

from google.protobuf.message import Message

from libs.storage.page_tokens import PageTokenInvalid, decode_page_token, encode_page_token
from services.search.usecases.pinned_rankings import Place

DEFAULT_PAGE = 100
_CHANGEABLE = ("min_revision",)
"""Fields of a search that may change between pages of its ranking."""


def ranking_token(request: Message, place: Place | None) -> str:
    """Return the token of the next page of a ranking; empty if there is none."""
    if place is None:
        return ""
    return encode_page_token(request, place.pin, place.revision, place.model, place.offset, ignored=_CHANGEABLE)


def place_in_ranking(request: Message) -> Place | None:
    """Return the start of the page that a request asks for; None for the first. Raises PageTokenInvalid."""
    cursor = decode_page_token(request, str, int, str, int, ignored=_CHANGEABLE)
    if cursor is None:
        return None
    place = Place(*cursor)
    if place.offset < 0:
        raise PageTokenInvalid
    return place
