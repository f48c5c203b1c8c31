"""The part of the OpenAPI document that is generated from the contract: operations and schemas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from chassis.idempotency import FIELD, find_key_path
from gateway.http.bindings import Binding
from gateway.http.contract_routes import IDEMPOTENCY_KEY
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
        "detail": {"type": "string", "description": "Description of the error for people."},
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
_PROBLEM_RESPONSE = {"description": "An error.", "content": {PROBLEM: {"schema": {"$ref": f"{REFERENCE}Problem"}}}}
_EVENTS = (
    "Server-sent events: each `message` has one message of the contract as JSON; `end` follows the last; `error` has a "
    "problem document."
)
_RESUMABLE = " Send the id of an event as `Last-Event-ID` to resume after it."
_IDEMPOTENCY_KEY: dict[str, Any] = {
    "schema": {"type": "string", "format": "uuid"},
    "description": f"Key by which the change happens once, in place of `{FIELD}` in the body.",
}
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
    """Operations and schemas of bindings; `comments` has descriptions by the full names of declarations."""

    def __init__(self, bindings: Sequence[Binding], comments: Mapping[str, str]) -> None:
        self._bindings = bindings
        self._comments = comments

    def build_paths(self) -> dict[str, dict[str, Any]]:
        """Return the operations by path and verb."""
        paths: dict[str, dict[str, Any]] = {}
        for binding in self._bindings:
            paths.setdefault(binding.path, {})[binding.verb.lower()] = self._describe_operation(binding)
        return paths

    def build_schemas(self) -> dict[str, dict[str, Any]]:
        """Return the schemas of the messages of the operations, with the messages of their fields."""
        schemas = {"Problem": PROBLEM_SCHEMA}
        pending = [binding.method.output_type for binding in self._bindings]
        pending += [binding.body_message for binding in self._bindings if binding.body_message is not None]
        pending += [message for binding in self._bindings for message in _iterate_query_messages(binding)]
        while pending:
            message = pending.pop()
            if message.full_name not in schemas and message.full_name not in _WELL_KNOWN:
                if not message.GetOptions().map_entry:
                    schemas[message.full_name] = self._describe_message(message)
                pending += [field.message_type for field in message.fields if field.message_type]
        return schemas

    def _describe_operation(self, binding: Binding) -> dict[str, Any]:
        comment = self._comments.get(binding.method.full_name, binding.method.name)
        name = f"{binding.method.containing_service.name}_{binding.method.name}"
        operation: dict[str, Any] = {
            "operationId": f"{name}_{binding.number}" if binding.number else name,
            "summary": comment.partition(". ")[0].removesuffix("."),
            "description": comment,
            "tags": [binding.method.containing_service.name],
            "parameters": list(self._describe_parameters(binding)),
            "responses": {"200": _describe_response(binding), "default": _PROBLEM_RESPONSE},
        }
        if binding.body:
            operation["requestBody"] = {"required": True, "content": self._describe_content(binding)}
        return operation

    def _describe_content(self, binding: Binding) -> dict[str, Any]:
        if binding.takes_file or binding.body_message is None:
            return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        top_level_fields = [path for path in binding.variables if "." not in path]
        schema = (
            self._describe_message(binding.body_message, top_level_fields)
            if top_level_fields
            else _build_reference(binding.body_message)
        )
        if binding.method.client_streaming:
            schema = {"type": "array", "items": schema}
        return {"application/json": {"schema": schema}}

    def _describe_parameters(self, binding: Binding) -> Iterator[dict[str, Any]]:
        for path, field in _iterate_fields(binding.method.input_type, binding.variables):
            yield self._describe_parameter(path, field, "path", required=True)
        if binding.reads_query:
            for path, field in _iterate_query_fields(binding):
                yield self._describe_parameter(path, field, "query", required=is_required(field))
        if find_key_path(binding.method.input_type) is not None:
            yield {"name": IDEMPOTENCY_KEY, "in": "header", "required": False, **_IDEMPOTENCY_KEY}
        resumption = RESUMPTIONS.get(binding.method.full_name)
        if resumption and resumption.after:
            position = {"type": "string", "pattern": f"^{POSITION}$"}
            yield {"name": "Last-Event-ID", "in": "header", "required": False, "schema": position}

    def _describe_parameter(
        self, path: str, field: FieldDescriptor, location: str, *, required: bool
    ) -> dict[str, Any]:
        parameter = {"name": path, "in": location, "required": required, "schema": build_field_schema(field)}
        return parameter | self._describe(field.full_name)

    def _describe(self, name: str) -> dict[str, str]:
        comment = self._comments.get(name)
        return {"description": comment} if comment else {}

    def _describe_message(self, message: Descriptor, omitted_fields: Collection[str] = ()) -> dict[str, Any]:
        """Return the schema of a message without some fields."""
        fields = [field for field in message.fields if field.name not in omitted_fields]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {field.name: build_field_schema(field) | self._describe(field.full_name) for field in fields},
            "additionalProperties": False,
            **self._describe(message.full_name),
        }
        required = [field.name for field in fields if is_required(field)]
        return {**schema, "required": required} if required else schema


def _describe_response(binding: Binding) -> dict[str, Any]:
    content = _build_reference(binding.method.output_type)
    if not binding.method.server_streaming:
        return {"description": "The response.", "content": {"application/json": {"schema": content}}}
    resumption = RESUMPTIONS.get(binding.method.full_name)
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
    names = {"enum": ["message", "end", "error"]}
    event = {"type": "object", "properties": {"event": names, "id": {"type": "string"}, "data": data}}
    description = _EVENTS + (_RESUMABLE if resumption and resumption.after else "")
    return {"description": description, "content": {MEDIA_TYPE: {"schema": event}}}


def _iterate_fields(message: Descriptor, paths: Iterable[str]) -> Iterator[tuple[str, FieldDescriptor]]:
    for path in paths:
        *parents, name = path.split(".")
        parent: Any = message
        for parent_name in parents:
            parent = parent.fields_by_name[parent_name].message_type
        yield path, parent.fields_by_name[name]


def _iterate_query_fields(binding: Binding) -> Iterator[tuple[str, FieldDescriptor]]:
    """Yield the fields that a query may have: neither fields of path and body, nor alternatives of these in a oneof."""
    fields = binding.method.input_type.fields
    bound = {*binding.variables, binding.body}
    oneofs = {field.containing_oneof.name for field in fields if field.name in bound and field.containing_oneof}
    for field in fields:
        is_alternative = field.containing_oneof is not None and field.containing_oneof.name in oneofs
        if field.name not in bound and not is_alternative:
            yield from (item for item in _flatten(field, field.name) if item[0] not in bound)


def _flatten(field: FieldDescriptor, path: str) -> Iterator[tuple[str, FieldDescriptor]]:
    """Yield a field of a query; for a message, its fields that are no messages."""
    message = field.message_type
    if message is None or message.full_name in _WELL_KNOWN:
        yield path, field
    elif not field.is_repeated:
        for part in message.fields:
            if part.message_type is None or part.message_type.full_name in _WELL_KNOWN:
                yield f"{path}.{part.name}", part


def _iterate_query_messages(binding: Binding) -> Iterator[Descriptor]:
    return (
        field.message_type for _, field in _iterate_query_fields(binding) if field.message_type and binding.reads_query
    )


def _build_reference(message: Descriptor) -> dict[str, Any]:
    return _WELL_KNOWN.get(message.full_name) or {"$ref": REFERENCE + message.full_name}


def build_field_schema(field: FieldDescriptor) -> dict[str, Any]:
    """Return the schema of a field."""
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return {"type": "object", "additionalProperties": _build_value_schema(entry.fields_by_name["value"])}
    return {"type": "array", "items": _build_value_schema(field)} if field.is_repeated else _build_value_schema(field)


def _build_value_schema(field: FieldDescriptor) -> dict[str, Any]:
    """Return the schema of one value of a field in proto3 JSON."""
    if field.message_type:
        return _build_reference(field.message_type)
    if field.enum_type:
        return {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    return _SCALARS.get(field.type, _INT32)


def is_required(field: FieldDescriptor) -> bool:
    """Return whether a request must set a field; a header may have the idempotency key instead."""
    behaviours = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.REQUIRED in behaviours and field.name != FIELD
