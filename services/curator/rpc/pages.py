"""Page tokens: opaque to clients, bounded and checked here."""

from __future__ import annotations

import base64
import binascii
import json

from chassis.errors import InvalidArgument, Violation

Part = str | int
DEFAULT_PAGE = 100


def page_token(*parts: Part) -> str:
    """A token that carries `parts` to the next request."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def parts_of(token: str, *kinds: type) -> list[Part]:
    """The parts of a token of these kinds; InvalidArgument for a token that is not one of ours."""
    try:
        parts = json.loads(base64.urlsafe_b64decode(token.encode("ascii")))
    except (ValueError, binascii.Error, UnicodeError, RecursionError):
        parts = None
    if not isinstance(parts, list) or [type(part) for part in parts] != list(kinds):
        problem = "page_token must be the next_page_token of the previous page"
        raise InvalidArgument(problem, reason="INVALID_PAGE_TOKEN", violations=[Violation("page_token", problem)])
    return parts
