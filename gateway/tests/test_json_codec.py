"""The JSON of responses is the JSON that `google.protobuf.json_format` writes, for every message of the contract."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from gateway.contract import load_contract
from gateway.http.json_codec import JsonEncoder

EXAMPLES = 20
MAX_DEPTH = 3
TEXTS = ("", "a", '日本語 "quoted" \\ / \n\t\x00\x7f', "😀 <script>&'", "x" * 50)
INTEGERS = (0, 1, -1, 2**31 - 1, -(2**31))
FLOATS = (0.0, 1.0, -0.5, 0.1, 1e-9, 1e30, float("inf"), float("nan"))


def reachable_messages(messages: Iterable[Descriptor]) -> dict[str, Descriptor]:
    """Return message types and those of their fields, by full name."""
    found: dict[str, Descriptor] = {}
    pending = list(messages)
    while pending:
        message = pending.pop()
        if message.full_name not in found:
            found[message.full_name] = message
            pending += [field.message_type for field in message.fields if field.message_type]
    return found


MESSAGES = {
    name: message
    for name, message in reachable_messages(
        kind for method in load_contract().list_methods() for kind in (method.input_type, method.output_type)
    ).items()
    if not message.GetOptions().map_entry
}


def random_message(kind: Descriptor, random: Random, depth: int = 0) -> Message:
    """Return a message with random content; about half of its fields are set."""
    message: Any = GetMessageClass(kind)()
    match kind.full_name:
        case "google.protobuf.Timestamp":
            message.FromNanoseconds(random.randrange(-(10**9), 10**9) * random.choice((1, 10**3, 10**6, 10**9)))
        case "google.protobuf.Duration":
            message.FromNanoseconds(random.choice((0, 1, 10**9, -1_500_000_000, random.randrange(10**18))))
        case "google.protobuf.Struct":
            message.update({text: random.choice((None, 1.5, True, [1, "x"], {"y": text})) for text in TEXTS[1:3]})
        case "google.protobuf.Value":
            values: list[Any] = [None, 1.5, "x", [1, None], {"y": False}]
            json_format.ParseDict(random.choice(values), message)
        case "google.protobuf.FieldMask":
            message.paths.extend(random.sample(["a", "b_c", "d.e_f"], 2))
        case _:
            for field in kind.fields:
                if random.random() < 0.5:
                    set_field(message, field, random, depth)
    return message  # type: ignore[no-any-return]


def set_field(message: Any, field: FieldDescriptor, random: Random, depth: int) -> None:
    """Set a field to random content; below the greatest depth no message has a message."""
    if field.message_type is not None and depth >= MAX_DEPTH:
        return
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for _ in range(2):
            entry = getattr(message, field.name)
            name = random_value(key, random, depth)
            if value.message_type is None:
                entry[name] = random_value(value, random, depth)
            else:
                entry[name].CopyFrom(random_value(value, random, depth))
    elif field.is_repeated:
        getattr(message, field.name).extend(random_value(field, random, depth) for _ in range(2))
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(random_value(field, random, depth))
    else:
        setattr(message, field.name, random_value(field, random, depth))


def random_value(field: FieldDescriptor, random: Random, depth: int) -> Any:
    """Return one value of a field."""
    if field.message_type is not None:
        return random_message(field.message_type, random, depth + 1)
    if field.enum_type is not None:
        return random.choice([*field.enum_type.values_by_number, 9999])
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return random.randbytes(random.randrange(5))
        case FieldDescriptor.CPPTYPE_STRING:
            return random.choice(TEXTS)
        case FieldDescriptor.CPPTYPE_BOOL:
            return random.random() < 0.5
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return random.choice(FLOATS)
        case FieldDescriptor.CPPTYPE_INT64:
            return random.choice((*INTEGERS, 2**63 - 1, -(2**63)))
        case FieldDescriptor.CPPTYPE_UINT64:
            return random.choice((0, 1, 2**64 - 1))
        case FieldDescriptor.CPPTYPE_UINT32:
            return random.choice((0, 1, 2**32 - 1))
        case _:
            return random.choice(INTEGERS)


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_responses_are_proto3_json(name: str) -> None:
    kind = MESSAGES[name]
    encoder, random = JsonEncoder(MESSAGES.values()), Random(name)
    for _ in range(EXAMPLES):
        message = random_message(kind, random)
        expected = json_format.MessageToJson(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        assert json.loads(encoder.encode(kind, message.SerializeToString())) == json.loads(expected)
