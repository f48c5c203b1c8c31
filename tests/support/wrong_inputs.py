"""Wrong inputs that are derived from the contract, and the signs of Python in the messages that they cause."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

PYTHON_FORMS = re.compile(
    r"""
    \bb'|\bb"                                    # bytes
    | \b(?:None|True|False)\b                    # constants; the inputs below contain none of them
    | <(?:object|class|function|bound|module|coroutine)\b | \bobject\ at\ 0x | <\w+(?:\.\w+)+[:>\s]  # objects, enums
    | Traceback | File\ "[^"]+",\ line\ \d
    | Value\ error, | Input\ should\ be | \bvalidation\ errors?\ for\b | \[type= | input_(?:value|type)=
    | pydantic(?!_ai)                            # texts of pydantic
    | \b(?:\w+\.)*\w+(?:Error|Exception)\b[(:]   # names of exceptions
    | \[Errno | \bError\(\s*' | \bdict_\w+\(
    | \{'\w+':\ | \['\w+'[\],] | \('\w+',        # dictionaries, lists and tuples
    | \bgoogle\.protobuf\b | \bjson\.decoder\b | expected\ str\ instance | \bNoneType\b | \bgot\ an\ unexpected\b
    | \b[A-Z]\w+\.[A-Z_]{3,}\b                   # members of enums
    """,
    re.VERBOSE,
)

BROKEN_BODIES = (b"", b"{", b"[]", b"null", b"7", b'"text"', b"\xff\xfe", b'{"query": NaN}', b"{}", b'{"nothing": 1}')
WRONG_VALUES: tuple[Any, ...] = (
    7,
    -1,
    1.5,
    "text",
    "",
    "a\x00c",
    "x" * 300,
    True,
    [],
    [7],
    ["text"],
    {},
    {"nothing": 1},
)
WRONG_VALUES += (10**30, "!not base64!", "2026-99-99T00:00:00Z", [[]], [{}], [{"nothing": 1}])
PATH_PARTS = ("text", "a c", "a.c", "%00", "%FF", "x" * 300, "0")
QUERY_VALUES = ("text", "-1", "1.5", "9" * 30, "", "\x00", "0123456789ab")
_DEPTH = 3


def find_python_form(text: str) -> str:
    """Return the first sign of Python in a text, with the text around it; empty for none."""
    found = PYTHON_FORMS.search(text)
    return "" if found is None else text[max(0, found.start() - 80) : found.end() + 80]


def wrong_bodies(message: Descriptor) -> Iterator[dict[str, Any]]:
    """Yield objects in which one field, also one inside of another, has a value of another type or range."""
    yield from _wrong_objects(message, _DEPTH)


def _wrong_objects(message: Descriptor, depth: int) -> Iterator[dict[str, Any]]:
    for field in message.fields:
        for value in WRONG_VALUES:
            yield {field.name: value}
        if depth > 1 and field.message_type is not None and not _is_map(field):
            for inner in _wrong_objects(field.message_type, depth - 1):
                yield {field.name: [inner] if field.is_repeated else inner}


def _is_map(field: FieldDescriptor) -> bool:
    message = field.message_type
    return message is not None and bool(message.GetOptions().map_entry)
