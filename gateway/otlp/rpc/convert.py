"""Conversion between the bodies of OTLP over HTTP and messages."""

from __future__ import annotations

import zlib
from typing import TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from gateway.otlp.domain.errors import MalformedExport
from gateway.otlp.usecases.otlp_json import parse_export

M = TypeVar("M", bound=Message)

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_GZIP = 31
"""The window bits by which zlib reads the header of gzip."""


def decompress(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return a body without its content encoding. Raises MalformedExport, also if it is too large then."""
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise MalformedExport(f"content-encoding {encoding[:40]!r} is not supported: send gzip or identity")
    decoder = zlib.decompressobj(_GZIP)
    try:
        content = decoder.decompress(body, max_bytes)
    except zlib.error as error:
        raise MalformedExport(f"the body is not gzip: {error}") from error
    if decoder.unconsumed_tail:
        raise MalformedExport(f"the body may have at most {max_bytes} bytes without its compression")
    if not decoder.eof:
        raise MalformedExport("the body is not gzip: it ends too early")
    return content


def decode_request(body: bytes, content_type: str, message: M) -> M:
    """Return `message` with the contents of a body. Raises MalformedExport."""
    if content_type == JSON:
        return parse_export(body, message)
    if content_type != PROTOBUF:
        raise MalformedExport(f"content-type {content_type[:80]!r} is not supported: send {PROTOBUF} or {JSON}")
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise MalformedExport(f"the body is not a {message.DESCRIPTOR.name}: {error}") from error
    return message


def encode_response(message: Message, content_type: str) -> bytes:
    """Return the body of a response, in the encoding of its request."""
    if content_type == JSON:
        return json_format.MessageToJson(message, indent=None).encode()
    return message.SerializeToString()
