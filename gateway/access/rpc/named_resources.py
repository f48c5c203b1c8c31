"""The fields of a request that name resources of a tenant, found by descriptor at any depth.

Datasets are the fields with the rule `dataset_name`. `named_resources.json` lists the fields of all other kinds; a
contract test walks every request and fails when a field that looks like a name is in neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from buf.validate import validate_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from hansei.playbook.v1 import rules_pb2


class ResourceKind(Enum):
    """The kind of resource that a field names."""

    DATASET = "dataset"
    """A name that begins with its tenant's prefix. Unset means a default dataset, which has no tenant."""
    COLLECTION = "collection"
    """The name of a document collection, with the same rule."""
    EXECUTION = "execution"
    """The id of an execution of a plan or of rounds, with the same rule."""
    PLAN = "plan"
    """The id of a plan, and of its execution, with the same rule; the planner assigns an unset one."""
    SOURCE = "dataset or collection"
    """The source of a step of a plan, with the same rule; the planner chooses an unset one within the plan's prefix."""
    PREFIX = "prefix"
    """The prefix of the names that a list returns or a plan may use; unset becomes the caller's own."""
    JOB = "job"
    """An id that a service assigned; its owner is stored."""
    AUTHOR = "author"
    """The author of a change; unset becomes the caller's name."""


ASSIGNED_BY_SERVICE = frozenset({ResourceKind.JOB})
"""Kinds whose names do not contain their owner."""
OPTIONAL_WITHIN_PREFIX = frozenset({ResourceKind.PLAN, ResourceKind.SOURCE})
"""Kinds that may be unset: the service then chooses a name within the caller's prefix."""

_TABLE = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
_KINDS: Mapping[str, ResourceKind] = {name: ResourceKind[kind] for kind, names in _TABLE.items() for name in names}


@dataclass(frozen=True, slots=True)
class NamedResource:
    """A field that names a resource, with its message, so that an unset field can be set."""

    kind: ResourceKind
    message: Message
    field: str
    value: str


def find_named_resources(message: Message) -> Iterator[NamedResource]:
    """Yield the resources that a request names; unset fields count, except the alternatives of a set oneof."""
    for field, kind in _find_fields(message.DESCRIPTOR):
        for value in _iterate_values(message, field):
            if kind is not None:
                yield NamedResource(kind, message, field.name, value)
            else:
                yield from find_named_resources(value)


def get_kind(field: FieldDescriptor) -> ResourceKind | None:
    """Return the kind of resource that a field names; None for other fields."""
    rules = field.GetOptions().Extensions[validate_pb2.field]
    texts = rules.repeated.items.string if field.is_repeated else rules.string
    return ResourceKind.DATASET if texts.Extensions[rules_pb2.dataset_name] else _KINDS.get(field.full_name)


def read_value(message: Message, path: str) -> str:
    """Return the text at a dotted path; empty if a message on the path is not set."""
    value: Any = message
    for name in path.split("."):
        value = getattr(value, name)
    return str(value)


def _iterate_values(message: Message, field: FieldDescriptor) -> Iterator[Any]:
    set_field = message.WhichOneof(field.containing_oneof.name) if field.containing_oneof else None
    if set_field is not None and set_field != field.name:
        return
    value = getattr(message, field.name)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        yield from value.values()
    elif field.is_repeated:
        yield from value
    elif entry is None or message.HasField(field.name):
        yield value


@cache
def _find_fields(descriptor: Descriptor) -> tuple[tuple[FieldDescriptor, ResourceKind | None], ...]:
    """Return the fields that name a resource, and those whose messages have such fields."""
    kinds = ((field, get_kind(field)) for field in descriptor.fields)
    return tuple((field, kind) for field, kind in kinds if kind is not None or _contains_names(field))


def _contains_names(field: FieldDescriptor) -> bool:
    if field.message_type is None:
        return False
    visited: set[str] = set()
    pending = [_find_message_type(field)]
    while pending:
        message = pending.pop()
        if message is None or message.full_name in visited or not message.full_name.startswith("hansei."):
            continue
        visited.add(message.full_name)
        if any(get_kind(inner) is not None for inner in message.fields):
            return True
        pending += [_find_message_type(inner) for inner in message.fields]
    return False


def _find_message_type(field: FieldDescriptor) -> Descriptor | None:
    """Return the message type of a field; of a map, that of its values."""
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return entry.fields_by_name["value"].message_type
    return entry
