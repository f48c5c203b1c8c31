"""Page tokens: opaque to clients, bounded and checked here."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.message import Message

from services.search.domain.collection_errors import PageTokenInvalid
from services.search.domain.embedding import content_hash
from services.search.usecases.pinned_rankings import Place

DEFAULT_PAGE = 100


def list_token(last: str) -> str:
    """The token of the page of a list that goes on behind `last`."""
    return _encoded([last])


def place_in_list(token: str) -> str:
    """Behind which name or id a page begins; empty for the first. Raises `PageTokenInvalid`."""
    return _decoded(token, str)[0] if token else ""


def ranking_token(place: Place | None) -> str:
    """The token of a further page of a ranking; empty if there is none."""
    return _encoded([place.pin, place.revision, place.model, place.digest, place.offset]) if place else ""


def place_in_ranking(token: str) -> Place | None:
    """Where a page begins; None for the first. Raises `PageTokenInvalid`."""
    return Place(*_decoded(token, str, int, str, str, int)) if token else None


def digest_of(*parts: str | Message) -> str:
    """What all pages of one ranking share: the request but for its page. 16 hexadecimal digits."""
    texts = [part if isinstance(part, str) else part.SerializeToString(deterministic=True).hex() for part in parts]
    return content_hash("\n".join(texts)).hex()[:16]


def _encoded(parts: list[str | int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts, ensure_ascii=False).encode()).decode()


def _decoded(token: str, *kinds: type) -> tuple[Any, ...]:
    try:
        parts = json.loads(base64.urlsafe_b64decode(token.encode("ascii")))
    except (ValueError, RecursionError):
        raise PageTokenInvalid from None
    if not isinstance(parts, list) or [type(part) for part in parts] != list(kinds):
        raise PageTokenInvalid
    return tuple(parts)
