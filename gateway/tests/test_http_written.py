"""The fast writer of messages writes what the library writes."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http.endpoints import endpoints
from gateway.http.written import as_json
from tests.campaigns import sized

F = FieldDescriptor
ANSWERS = {each.method.output_type.full_name: each.method.output_type for each in endpoints()}
VALUES: dict[int, st.SearchStrategy[Any]] = {
    F.CPPTYPE_BOOL: st.booleans(),
    F.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    F.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    F.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    F.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
    F.CPPTYPE_DOUBLE: st.floats() | st.integers(-9, 9).map(float),
    F.CPPTYPE_FLOAT: st.floats(width=32),
    F.CPPTYPE_STRING: st.text(max_size=5),
    F.CPPTYPE_ENUM: st.integers(0, 40),
}


@st.composite
def filled(draw: st.DrawFn, kind: Descriptor, depth: int = 0) -> Message:
    """A message with any of its fields set."""
    message = GetMessageClass(kind)()
    for field in kind.fields:
        if depth < 4 and draw(st.booleans()):
            _fill(draw, message, field, depth)
    return message


def _fill(draw: st.DrawFn, message: Any, field: FieldDescriptor, depth: int) -> None:
    entry = field.message_type
    if entry is None:
        value = st.binary(max_size=4) if field.type == F.TYPE_BYTES else VALUES[field.cpp_type]
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(value, max_size=2)))
        else:
            setattr(message, field.name, draw(value))
    elif entry.full_name == "google.protobuf.Timestamp":
        getattr(message, field.name).FromMilliseconds(draw(st.integers(0, 10**12)))
    elif entry.full_name == "google.protobuf.Duration":
        getattr(message, field.name).FromMilliseconds(draw(st.integers(0, 10**9)))
    elif entry.GetOptions().map_entry:
        _fill_map(draw, getattr(message, field.name), entry, depth)
    elif field.is_repeated:
        getattr(message, field.name).append(draw(filled(entry, depth + 1)))
    else:
        getattr(message, field.name).CopyFrom(draw(filled(entry, depth + 1)))


def _fill_map(draw: st.DrawFn, entries: Any, entry: Descriptor, depth: int) -> None:
    key, value = draw(VALUES[entry.fields_by_name["key"].cpp_type]), entry.fields_by_name["value"]
    if value.message_type is None:
        entries[key] = draw(VALUES[value.cpp_type])
    else:
        entries[key].CopyFrom(draw(filled(value.message_type, depth + 1)))


@pytest.mark.parametrize("name", sorted(ANSWERS))
@settings(max_examples=sized(20, 8))
@given(data=st.data())
def test_for_all_answers_it_is_what_the_library_writes(name: str, data: st.DataObject) -> None:
    message = data.draw(filled(ANSWERS[name]))
    expected = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    assert repr(_sorted(as_json(message))) == repr(_sorted(expected))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
