"""JSON that comes in and messages that go out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from fastapi.responses import Response
from google.protobuf import json_format
from google.protobuf.message import Message
from pydantic_core import to_json

from chassis import validation
from chassis.errors import InvalidArgument, Violation, shortened
from gateway.http.written import as_json

LARGE_BYTES = 100_000
"""From this size on conversions leave the loop, so that other requests get their turn."""

M = TypeVar("M", bound=Message)


class BodyNotObject(InvalidArgument):
    """The body is not the text of a JSON object (G-29)."""

    reason = "BODY_NOT_JSON_OBJECT"

    def __init__(self) -> None:
        super().__init__("body must be JSON object")


class BodyNotList(InvalidArgument):
    """The body is not the text of a JSON list of objects."""

    reason = "BODY_NOT_JSON_LIST"

    def __init__(self) -> None:
        super().__init__("body must be a JSON list of objects")


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises BodyNotObject, also for what Python reads as JSON though it is none."""
    value = _json(body, BodyNotObject)
    if not isinstance(value, dict):
        raise BodyNotObject
    return value


def json_list(body: bytes) -> list[dict[str, Any]]:
    """The JSON objects in a body that is a list of them. Raises BodyNotList."""
    value = _json(body, BodyNotList)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise BodyNotList
    return value


def _json(body: bytes, refused: type[BodyNotObject | BodyNotList]) -> Any:
    try:
        value = json.loads(body, parse_constant=_refuse)
        if not body.isascii() or b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()  # fails on half a surrogate pair, which no text holds
    except (ValueError, RecursionError) as error:
        raise refused from error
    return value


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


async def read_message(
    value: Mapping[str, Any], kind: type[M], size: int = 0, held: Mapping[str, bytes] | None = None
) -> M:
    """The message that a JSON object and the bytes `held` make, checked by its contract. Raises InvalidArgument."""
    message: M = await _converted(size, _message_of, value, kind, held or {})
    return message


async def read_messages(values: Sequence[Mapping[str, Any]], kind: type[M], size: int) -> list[M]:
    """The messages in a list of JSON objects, each checked. Raises InvalidArgument, which says where in the list."""
    messages: list[M] = await _converted(size, _messages_of, values, kind)
    return messages


def _messages_of(values: Sequence[Mapping[str, Any]], kind: type[M]) -> list[M]:
    messages = []
    for place, value in enumerate(values):
        try:
            messages.append(_message_of(value, kind, {}))
        except InvalidArgument as error:
            found = [Violation(f"[{place}].{each.field}", each.description, each.rule) for each in error.violations]
            raise InvalidArgument(f"[{place}] {error.message}", reason=error.reason, violations=found) from error
    return messages


def _message_of(value: Mapping[str, Any], kind: type[M], held: Mapping[str, bytes]) -> M:
    message = kind()
    try:
        json_format.ParseDict(dict(value), message)
    except (json_format.ParseError, ValueError, RecursionError) as error:
        rule = shortened(str(error).partition("\n")[0], 300)
        raise InvalidArgument(f"not a {kind.DESCRIPTOR.name}: {rule}") from error
    for name, content in held.items():
        setattr(message, name, content)
    validation.check(message)
    return message


async def write_message(message: Message) -> Response:
    """A message as JSON with the names of the contract, defaults included; 64-bit numbers are texts, as proto3 says."""
    return Response(await _converted(message.ByteSize(), text_of, message), media_type="application/json")


def text_of(message: Message) -> str:
    """The JSON text of a message."""
    return to_json(as_json(message)).decode()


async def _converted(size: int, conversion: Any, *values: Any) -> Any:
    return conversion(*values) if size < LARGE_BYTES else await asyncio.to_thread(conversion, *values)
