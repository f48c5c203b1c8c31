"""The part of the OpenAPI document that the contract says: operations from bindings, schemas from messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gateway.http.bindings import Binding
from gateway.http.events import MEDIA_TYPE
from gateway.http.problems import PROBLEM
from gateway.http.resumption import POSITION, RESUMPTIONS

REFERENCE = "#/components/schemas/"
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, for people."},
        "code": {"type": "string", "description": "Name of the gRPC status."},
        "reason": {"type": "string", "description": "Stable name of the error, the same as over gRPC."},
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
        "violations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("field", "description", "rule")},
            },
        },
    },
}
_REFUSED = {"description": "What is wrong.", "content": {PROBLEM: {"schema": {"$ref": f"{REFERENCE}Problem"}}}}
_EVENTS = (
    "Server-sent events: each `message` has one message of the contract as JSON; `end` follows the last; `error` has a "
    "problem document."
)
_RESUMABLE = " The id of an event, sent as `Last-Event-ID`, resumes after it."
_WELL_KNOWN: dict[str, dict[str, Any]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "examples": ["300s"]},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
    "google.protobuf.ListValue": {"type": "array"},
}
_INT64: dict[str, Any] = {"type": "string", "format": "int64"}
_SCALARS: dict[int, dict[str, Any]] = {
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "format": "byte"},
    FieldDescriptor.TYPE_DOUBLE: {"type": "number"},
    FieldDescriptor.TYPE_FLOAT: {"type": "number"},
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: {**_INT64, "format": "uint64"},
    FieldDescriptor.TYPE_FIXED64: {**_INT64, "format": "uint64"},
}
_INT32 = {"type": "integer", "format": "int32"}


class ContractDocument:
    """Operations and schemas; `comments` has the descriptions by the full names of what they describe."""

    def __init__(self, bindings: Sequence[Binding], comments: Mapping[str, str]) -> None:
        self._bindings = bindings
        self._comments = comments

    def paths(self) -> dict[str, dict[str, Any]]:
        """Return the operations by path and verb."""
        found: dict[str, dict[str, Any]] = {}
        for binding in self._bindings:
            found.setdefault(binding.path, {})[binding.verb.lower()] = self._operation(binding)
        return found

    def schemas(self) -> dict[str, dict[str, Any]]:
        """Return the schemas of the messages that the operations refer to, and of those that they are made of."""
        schemas = {"Problem": PROBLEM_SCHEMA}
        pending = [each.method.output_type for each in self._bindings]
        pending += [each.body_message for each in self._bindings if each.body_message is not None]
        pending += [message for each in self._bindings for message in _query_messages(each)]
        while pending:
            message = pending.pop()
            if message.full_name not in schemas and message.full_name not in _WELL_KNOWN:
                if not message.GetOptions().map_entry:
                    schemas[message.full_name] = self._message(message)
                pending += [field.message_type for field in message.fields if field.message_type]
        return schemas

    def _operation(self, binding: Binding) -> dict[str, Any]:
        comment = self._comments.get(binding.method.full_name, binding.method.name)
        name = f"{binding.method.containing_service.name}_{binding.method.name}"
        operation: dict[str, Any] = {
            "operationId": f"{name}_{binding.number}" if binding.number else name,
            "summary": comment.partition(". ")[0].removesuffix("."),
            "description": comment,
            "tags": [binding.method.containing_service.name],
            "parameters": list(self._parameters(binding)),
            "responses": {"200": _response(binding), "default": _REFUSED},
        }
        if binding.body:
            operation["requestBody"] = {"required": True, "content": self._content(binding)}
        return operation

    def _content(self, binding: Binding) -> dict[str, Any]:
        if binding.takes_file or binding.body_message is None:
            return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        top = [path for path in binding.variables if "." not in path]
        schema = self._message(binding.body_message, top) if top else _reference(binding.body_message)
        if binding.method.client_streaming:
            schema = {"type": "array", "items": schema}
        return {"application/json": {"schema": schema}}

    def _parameters(self, binding: Binding) -> Iterator[dict[str, Any]]:
        for path, field in _fields(binding.method.input_type, binding.variables):
            yield self._parameter(path, field, "path", required=True)
        if binding.reads_query:
            for path, field in _query_fields(binding):
                yield self._parameter(path, field, "query", required=is_required(field))
        resumption = RESUMPTIONS.get(binding.method.full_name)
        if resumption and resumption.after:
            position = {"type": "string", "pattern": f"^{POSITION}$"}
            yield {"name": "Last-Event-ID", "in": "header", "required": False, "schema": position}

    def _parameter(self, path: str, field: FieldDescriptor, place: str, *, required: bool) -> dict[str, Any]:
        comment = self._comments.get(field.full_name)
        described = {"description": comment} if comment else {}
        return {"name": path, "in": place, "required": required, "schema": field_schema(field), **described}

    def _message(self, message: Descriptor, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the schema of a message, less the fields that stand elsewhere."""
        fields = [field for field in message.fields if field.name not in without]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {field.name: self._described(field) for field in fields},
            "additionalProperties": False,
        }
        if comment := self._comments.get(message.full_name):
            schema["description"] = comment
        required = [field.name for field in fields if is_required(field)]
        return {**schema, "required": required} if required else schema

    def _described(self, field: FieldDescriptor) -> dict[str, Any]:
        comment = self._comments.get(field.full_name)
        return {**field_schema(field), **({"description": comment} if comment else {})}


def _response(binding: Binding) -> dict[str, Any]:
    content = _reference(binding.method.output_type)
    if not binding.method.server_streaming:
        return {"description": "The answer.", "content": {"application/json": {"schema": content}}}
    resumption = RESUMPTIONS.get(binding.method.full_name)
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
    names = {"enum": ["message", "end", "error"]}
    event = {"type": "object", "properties": {"event": names, "id": {"type": "string"}, "data": data}}
    description = _EVENTS + (_RESUMABLE if resumption and resumption.after else "")
    return {"description": description, "content": {MEDIA_TYPE: {"schema": event}}}


def _fields(message: Descriptor, paths: Iterable[str]) -> Iterator[tuple[str, FieldDescriptor]]:
    for path in paths:
        *parents, name = path.split(".")
        holder: Any = message
        for each in parents:
            holder = holder.fields_by_name[each].message_type
        yield path, holder.fields_by_name[name]


def _query_fields(binding: Binding) -> Iterator[tuple[str, FieldDescriptor]]:
    """Yield the fields that a query may have: not those elsewhere, nor those that exclude what stands in the path."""
    fields = binding.method.input_type.fields
    taken = {*binding.variables, binding.body}
    chosen = {each.containing_oneof.name for each in fields if each.name in taken and each.containing_oneof}
    for field in fields:
        excluded = field.containing_oneof is not None and field.containing_oneof.name in chosen
        if field.name not in taken and not excluded:
            yield from ((path, each) for path, each in _flattened(field, field.name) if path not in taken)


def _flattened(field: FieldDescriptor, path: str) -> Iterator[tuple[str, FieldDescriptor]]:
    """Yield a field of a query; of a message those of its fields that are no messages."""
    message = field.message_type
    if message is None or message.full_name in _WELL_KNOWN:
        yield path, field
    elif not field.is_repeated:
        for each in message.fields:
            if each.message_type is None or each.message_type.full_name in _WELL_KNOWN:
                yield f"{path}.{each.name}", each


def _query_messages(binding: Binding) -> Iterator[Descriptor]:
    return (field.message_type for _, field in _query_fields(binding) if field.message_type and binding.reads_query)


def _reference(message: Descriptor) -> dict[str, Any]:
    return _WELL_KNOWN.get(message.full_name) or {"$ref": REFERENCE + message.full_name}


def field_schema(field: FieldDescriptor) -> dict[str, Any]:
    """Return the schema of a field: of its value, or of its values."""
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return {"type": "object", "additionalProperties": _value_schema(entry.fields_by_name["value"])}
    return {"type": "array", "items": _value_schema(field)} if field.is_repeated else _value_schema(field)


def _value_schema(field: FieldDescriptor) -> dict[str, Any]:
    """Return the schema of one value of a field, as proto3 JSON writes it."""
    if field.message_type:
        return _reference(field.message_type)
    if field.enum_type:
        return {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    return _SCALARS.get(field.type, _INT32)


def is_required(field: FieldDescriptor) -> bool:
    """Return whether the contract says that a request must set a field."""
    behaviours = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.REQUIRED in behaviours
