"""Paths by their segments: an id may hold whatever its contract allows, so `%2F` is a part of it and ends no segment.

Servers decode a path before it is routed, and what was `a%2Fb` looks like two segments then. Here the path is split as
it was sent, and each segment is decoded alone.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor


class _Segment(Convertor[str]):
    """One segment of a routed path, as its id."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace("%2F", "/").replace("%25", "%")

    def to_string(self, value: str) -> str:
        return value.replace("%", "%25").replace("/", "%2F")


_SEGMENT = _Segment()
register_url_convertor("segment", _SEGMENT)


def routed_path(scope: MutableMapping[str, Any]) -> str:
    """Return the path of a request as it is routed: each segment decoded, and what would end one kept encoded."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        return str(scope["path"])
    segments = raw.decode("ascii", "replace").split("/")
    return "/".join(_SEGMENT.to_string(unquote(each)) for each in segments)
