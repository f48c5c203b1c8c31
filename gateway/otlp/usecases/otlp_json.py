"""OTLP JSON, which is proto3 JSON except that ids are hexadecimal.

Source of the format: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from chassis.json_texts import parse_integer
from gateway.otlp.domain.errors import MalformedExport
from gateway.otlp.domain.trace import PartKind

M = TypeVar("M", bound=Message)

_ID_FIELDS = ("traceId", "spanId", "parentSpanId")


def parse_export(body: bytes, message: M) -> M:
    """Return `message` with the contents of OTLP JSON; unknown fields are ignored. Raises MalformedExport."""
    try:
        document = json.loads(body, parse_int=parse_integer)
        if not isinstance(document, dict):
            raise MalformedExport("the body must be a JSON object")
        _convert_ids(document, _decode_id)
        json_format.ParseDict(document, message, ignore_unknown_fields=True, max_recursion_depth=64)
    except (ValueError, RecursionError, json_format.ParseError) as error:
        raise MalformedExport(f"the body is not OTLP JSON: {str(error)[:300]}") from error
    return message


def build_document(parts: Sequence[tuple[PartKind, bytes]]) -> bytes:
    """Return the OTLP JSON lines of the parts of a trace."""
    lines = []
    for kind, payload in parts:
        message = TracesData.FromString(payload) if kind is PartKind.SPANS else LogsData.FromString(payload)
        document = json_format.MessageToDict(message)
        _convert_ids(document, _encode_id)
        lines.append(json.dumps(document, ensure_ascii=False))
    return "\n".join(lines).encode("utf-8", "replace")


def _convert_ids(document: dict[str, Any], convert: Callable[[Any, str], str]) -> None:
    for item in _iterate_items(document):
        for owner in (item, *_read_list(item, "links")):
            for name in _ID_FIELDS:
                if owner.get(name):
                    owner[name] = convert(owner[name], name)


def _iterate_items(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans and the log records of a document."""
    for resources, scopes, items in (
        ("resourceSpans", "scopeSpans", "spans"),
        ("resourceLogs", "scopeLogs", "logRecords"),
    ):
        for resource in _read_list(document, resources):
            for scope in _read_list(resource, scopes):
                yield from _read_list(scope, items)


def _read_list(owner: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list. Raises MalformedExport for another type."""
    value = owner.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise MalformedExport(f"{name} must be a list of objects")
    return value


def _decode_id(value: Any, name: str) -> str:
    try:
        return base64.b64encode(bytes.fromhex(value)).decode()
    except (TypeError, ValueError) as error:
        raise MalformedExport(f"{name} {str(value)[:80]!r} must be hexadecimal") from error


def _encode_id(value: Any, name: str) -> str:
    try:
        return base64.b64decode(value).hex()
    except binascii.Error as error:  # only from a message that this module did not make
        raise MalformedExport(f"{name} {str(value)[:80]!r} must be base64") from error
