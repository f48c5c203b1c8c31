"""What the OpenAPI document says of the endpoints under `/v1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor

from gateway.http.endpoints import Endpoint
from gateway.http.events import MEDIA_TYPE
from gateway.http.problems import PROBLEM
from gateway.http.schemas import field_schema, is_required, message_schema, reference

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

_EVENTS = (
    "Server-sent events: each `message` has one message of the contract as JSON; `end` follows the last; `error` has a "
    "problem document."
)
_RESUMABLE = " The id of an event, sent as `Last-Event-ID`, resumes after it."


def messages_of(listed: Sequence[Endpoint]) -> list[Descriptor]:
    """The messages that the documentation refers to."""
    return [each for endpoint in listed for each in (endpoint.asked, endpoint.method.output_type)]


def documented(endpoint: Endpoint) -> dict[str, Any]:
    """The operation of one endpoint."""
    refused = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    operation: dict[str, Any] = {
        "responses": {"200": _answer(endpoint), "default": {"description": "What is wrong.", "content": refused}},
        "parameters": _parameters(endpoint),
    }
    if endpoint.verb != "GET":
        operation["requestBody"] = {"required": True, "content": _content(endpoint)}
    return operation


def _content(endpoint: Endpoint) -> dict[str, Any]:
    """What a body may be."""
    if endpoint.takes_file:
        return {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}, "example": endpoint.example}
        }
    schema = _body(endpoint)
    if endpoint.method.client_streaming:
        schema = {"type": "array", "items": schema}
    return {"application/json": {"schema": schema, "example": endpoint.example}}


def _answer(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.method.server_streaming:
        told = _EVENTS + (_RESUMABLE if endpoint.resumption and endpoint.resumption.after else "")
        return {"description": told, "content": {MEDIA_TYPE: {"schema": _event(endpoint.method.output_type)}}}
    answered = {"application/json": {"schema": reference(endpoint.method.output_type)}}
    return {"description": "The answer.", "content": answered}


def _event(told: Descriptor) -> dict[str, Any]:
    """The schema of one event."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": reference(told)}
    names = {"enum": ["message", "end", "error"]}
    return {"type": "object", "properties": {"event": names, "id": {"type": "string"}, "data": data}}


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    in_path, in_query = endpoint.in_path, endpoint.verb == "GET" or endpoint.takes_file
    fields = endpoint.method.input_type.fields
    chosen = {each.containing_oneof.name for each in fields if each.name in in_path and each.containing_oneof}
    listed: list[dict[str, Any]] = [
        {
            "name": each.name,
            "in": "path" if each.name in in_path else "query",
            "required": each.name in in_path or is_required(each),
            "schema": field_schema(each),
        }
        for each in fields
        if each.name in in_path
        or (
            in_query
            and each.name != endpoint.body
            and not (each.containing_oneof and each.containing_oneof.name in chosen)
        )
    ]
    if endpoint.resumption and endpoint.resumption.after:
        last = {"type": "string", "pattern": "^[0-9]{1,18}$"}
        listed.append({"name": "Last-Event-ID", "in": "header", "required": False, "schema": last})
    return listed


def _body(endpoint: Endpoint) -> dict[str, Any]:
    """The schema of a body: the message, less what the path says."""
    in_path = endpoint.in_path
    return message_schema(endpoint.asked, without=in_path) if in_path else reference(endpoint.asked)
