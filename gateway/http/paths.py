"""Paths whose segments may contain `%2F`, because ids may contain slashes.

Servers decode a path before routing, so that `a%2Fb` looks like two segments. This module splits the path before it
decodes each segment.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor


class _Segment(Convertor[str]):
    """Conversion between a segment of a routed path and an id."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace("%2F", "/").replace("%25", "%")

    def to_string(self, value: str) -> str:
        return value.replace("%", "%25").replace("/", "%2F")


_SEGMENT = _Segment()
register_url_convertor("segment", _SEGMENT)


def decode_path(scope: MutableMapping[str, Any]) -> str:
    """Return the path for the router: each segment decoded, except for slashes and percent signs."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        return str(scope["path"])
    segments = raw.decode("ascii", "replace").split("/")
    return "/".join(_SEGMENT.to_string(unquote(segment)) for segment in segments)
