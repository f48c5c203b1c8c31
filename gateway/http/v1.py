"""The endpoints under `/v1`: methods of the contracts as JSON, errors as problem documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from starlette.requests import Request

from chassis import deadlines
from chassis.calls import REQUEST_ID_KEY, Call, current_call, request_id_from
from chassis.policy import Policies
from gateway.http import examples
from gateway.http.bodies import json_object, read_message, write_message
from gateway.http.face import Face
from gateway.http.problems import PROBLEM
from gateway.http.schemas import is_required, reference, value_schema
from gateway.rpc.passthrough import path_of
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.search.v1 import search_service_pb2 as search

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


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a contract under a path. GET takes the request's fields from path and query, POST from the body."""

    verb: str
    path: str
    method: MethodDescriptor
    call: Callable[[Any], Awaitable[Message]]
    summary: str
    example: dict[str, Any] = field(default_factory=dict)


def endpoints(face: Face) -> Sequence[Endpoint]:
    """What is served."""
    chains = gateway.DESCRIPTOR.services_by_name["GatewayService"].methods_by_name
    books = playbook.DESCRIPTOR.services_by_name["PlaybookService"].methods_by_name
    index = search.DESCRIPTOR.services_by_name["SearchService"].methods_by_name
    book = "/v1/playbooks/{dataset}"
    return [
        Endpoint("POST", "/v1/learn", chains["Learn"], face.learning.learn, "Learn from a run", examples.LEARN),
        Endpoint("POST", "/v1/search", index["Search"], face.search.search, "Search a playbook", examples.SEARCH),
        Endpoint("GET", book, books["GetPlaybook"], face.playbooks.read, "Read a playbook"),
        Endpoint("GET", f"{book}/history", books["GetHistory"], face.playbooks.history, "List revisions"),
        Endpoint("GET", f"{book}/diff", books["DiffRevisions"], face.playbooks.diff, "Compare two revisions"),
    ]


def routes(listed: Sequence[Endpoint], policies: Policies) -> APIRouter:
    """The endpoints as routes."""
    router = APIRouter()
    for endpoint in listed:
        router.add_api_route(
            endpoint.path,
            _handler(endpoint, policies[path_of(endpoint.method)].timeout_seconds),
            methods=[endpoint.verb],
            summary=endpoint.summary,
            operation_id=endpoint.method.full_name,
            tags=[endpoint.method.containing_service.name],
            openapi_extra=_documented(endpoint),
            response_model=None,
        )
    return router


def messages_of(listed: Sequence[Endpoint]) -> list[Descriptor]:
    """The messages that the documentation refers to."""
    return [each for endpoint in listed for each in (endpoint.method.input_type, endpoint.method.output_type)]


def _handler(endpoint: Endpoint, seconds: float | None) -> Callable[[Request], Awaitable[Response]]:
    kind = GetMessageClass(endpoint.method.input_type)

    async def handle(request: Request) -> Response:
        if endpoint.verb == "GET":
            asked = await read_message({**request.query_params, **request.path_params}, kind)
        else:
            body = await request.body()
            asked = await read_message(json_object(body), kind, len(body))
        given = [(REQUEST_ID_KEY, request.headers.get(REQUEST_ID_KEY, ""))]
        current_call.set(Call(path_of(endpoint.method), request_id_from(given, asked)))
        with deadlines.within(seconds):
            return await write_message(await endpoint.call(asked))

    return handle


def _documented(endpoint: Endpoint) -> dict[str, Any]:
    answered = {"application/json": {"schema": reference(endpoint.method.output_type)}}
    refused = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    operation: dict[str, Any] = {
        "responses": {
            "200": {"description": "The answer.", "content": answered},
            "default": {"description": "What is wrong (RFC 9457).", "content": refused},
        }
    }
    asked = endpoint.method.input_type
    if endpoint.verb == "GET":
        operation["parameters"] = [
            {
                "name": each.name,
                "in": "path" if f"{{{each.name}}}" in endpoint.path else "query",
                "required": is_required(each),
                "schema": value_schema(each),
            }
            for each in asked.fields
        ]
    else:
        content = {"application/json": {"schema": reference(asked), "example": endpoint.example}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation
