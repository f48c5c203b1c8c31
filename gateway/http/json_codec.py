"""Conversion of JSON bodies to messages of the contract, and of messages to JSON.

`google.protobuf.json_format` parses requests. `protobuf-py`, a dependency of protovalidate, encodes responses: it
writes the same JSON from a serialized message in a tenth of the time (docs/adr/120).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FileDescriptor
from protobuf.wkt.google.protobuf.descriptor_pb import FileDescriptorSet

from chassis.errors import InvalidArgument, Violation
from chassis.json_faults import parse_message
from chassis.json_texts import parse_strict_json
from chassis.server import validation

LARGE_BYTES = 100_000
"""Conversions of more bytes run in a thread, so that they do not block the event loop."""

T = TypeVar("T")


class BodyNotObject(InvalidArgument):
    """The body is not a JSON object (G-29)."""

    reason = "BODY_NOT_JSON_OBJECT"

    def __init__(self, cause: str = "") -> None:
        super().__init__("body must be JSON object", violations=_explain(cause))


class BodyNotList(InvalidArgument):
    """The body is not a JSON list of objects."""

    reason = "BODY_NOT_JSON_LIST"

    def __init__(self, cause: str = "") -> None:
        super().__init__("body must be a JSON list of objects", violations=_explain(cause))


def _explain(cause: str) -> list[Violation]:
    return [Violation("body", f"cannot be read as JSON: {cause}")] if cause else []


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body. Raises BodyNotObject, also for NaN, lone surrogates and repeated names."""
    value = _parse(body, BodyNotObject)
    if not isinstance(value, dict):
        raise BodyNotObject
    return value


def parse_list(body: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects in a body that is a list of them. Raises BodyNotList."""
    value = _parse(body, BodyNotList)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BodyNotList
    return value


def _parse(body: bytes, refusal: type[BodyNotObject | BodyNotList]) -> Any:
    try:
        value = parse_strict_json(body, allow_repeated_names=False)
        if not body.isascii() or b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()  # raises for a lone surrogate
    except UnicodeEncodeError as error:
        raise refusal("it has half of a surrogate pair") from error
    except RecursionError as error:
        raise refusal("it is nested too deeply") from error
    except ValueError as error:
        raise refusal(str(error)) from error
    return value


async def convert(size: int, conversion: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a conversion of `size` bytes; a large one runs in a thread."""
    return conversion(*arguments) if size < LARGE_BYTES else await asyncio.to_thread(conversion, *arguments)


def decode(value: Mapping[str, Any], kind: Descriptor, files: Mapping[str, bytes] | None = None) -> Any:
    """Return the message of a JSON object and the bytes of `files`. Raises InvalidArgument."""
    message: Any = parse_message(dict(value), kind)
    for name, content in (files or {}).items():
        setattr(message, name, content)
    validation.check(message)
    return message


def decode_all(values: Sequence[Mapping[str, Any]], kind: Descriptor) -> list[Any]:
    """Return the messages in a list of JSON objects. Raises InvalidArgument with the position in the list."""
    messages = []
    for position, value in enumerate(values):
        try:
            messages.append(decode(value, kind))
        except InvalidArgument as error:
            violations = [replace(item, field=f"[{position}].{item.field}") for item in error.violations]
            message = f"[{position}] {error.message}"
            raise InvalidArgument(message, reason=error.reason, violations=violations) from error
    return messages


class JsonEncoder:
    """Encode responses as proto3 JSON with field names of the contract and defaults; 64-bit numbers are texts."""

    def __init__(self, messages: Iterable[Descriptor]) -> None:
        self._classes = _load_message_classes(frozenset(messages))

    def encode(self, kind: Descriptor, message: bytes) -> str:
        """Return the JSON text of a serialized message."""
        decoded: Any = self._classes[kind.full_name].from_binary(message)
        text: str = decoded.to_json(always_emit_implicit=True, use_proto_field_name=True)
        return text


@cache
def _load_message_classes(kinds: frozenset[Descriptor]) -> Mapping[str, Any]:
    """Return the classes of `protobuf-py` for message types, by their full names."""
    files: dict[str, FileDescriptor] = {}
    for kind in kinds:
        _add_file(kind.file, files)
    file_set = descriptor_pb2.FileDescriptorSet()
    for file in files.values():
        file.CopyToProto(file_set.file.add())
    registry: Any = FileDescriptorSet.from_binary(file_set.SerializeToString()).to_registry()
    return {kind.full_name: registry.message(kind.full_name).type for kind in kinds}


def _add_file(file: FileDescriptor, files: dict[str, FileDescriptor]) -> None:
    """Add a file after its imports."""
    if file.name not in files:
        for dependency in file.dependencies:
            _add_file(dependency, files)
        files[file.name] = file
