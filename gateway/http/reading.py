"""Requests of the endpoints under `/v1`: path, query and body as the messages of a method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from starlette.datastructures import QueryParams
from starlette.requests import Request

from chassis.calls import REQUEST_ID_KEY, Call, current_call, request_id_from
from chassis.errors import InvalidArgument, Violation, shortened
from gateway.http.bodies import json_list, json_object, read_message, read_messages
from gateway.http.endpoints import Endpoint
from gateway.rpc.passthrough import path_of

Read = Callable[[Request], Awaitable[Any]]

_BOOLS = {"true": True, "false": False}


def reader(endpoint: Endpoint) -> Read:
    """What reads the requests of an endpoint: their message, or the list of them where the method takes a stream."""
    path = path_of(endpoint.method)
    messages = _messages(endpoint)

    async def read(request: Request) -> Any:
        asked = await messages(request)
        given = [(REQUEST_ID_KEY, request.headers.get(REQUEST_ID_KEY, ""))]
        current_call.set(Call(path, request_id_from(given, getattr(asked, endpoint.body, asked))))
        return asked

    return read


def _messages(endpoint: Endpoint) -> Read:
    whole = endpoint.method.input_type
    kind = GetMessageClass(whole)

    async def read(request: Request) -> Any:
        if endpoint.verb == "GET":
            return await read_message({**_queried(request.query_params, whole), **request.path_params}, kind)
        body = await request.body()
        if endpoint.takes_file:
            told = {**_queried(request.query_params, whole), **request.path_params}
            return await read_message(told, kind, held={endpoint.body: body})
        if endpoint.method.client_streaming:
            return await read_messages(json_list(body), kind, len(body))
        held = json_object(body)
        fields = {endpoint.body: held} if endpoint.body else _joined(held, request.path_params)
        return await read_message(fields, kind, len(body))

    return read


def _queried(query: QueryParams, whole: Descriptor) -> dict[str, Any]:
    """The fields in a query, where everything is text; a repeated field takes all its values."""
    fields = whole.fields_by_name
    return {name: _values(fields.get(name), query.getlist(name)) for name in query}


def _values(field: FieldDescriptor | None, texts: list[str]) -> Any:
    if field is not None and field.is_repeated:
        return texts
    is_bool = field is not None and field.type == FieldDescriptor.TYPE_BOOL
    return _BOOLS.get(texts[-1], texts[-1]) if is_bool else texts[-1]


def _joined(body: Mapping[str, Any], in_path: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of body and path. Raises InvalidArgument where they contradict each other."""
    for name, value in in_path.items():
        if body.get(name, value) != value:
            rule = f"{name} is {shortened(repr(body[name]))} in the body and {shortened(repr(value))} in the path"
            raise InvalidArgument(rule, violations=[Violation(name, rule)])
    return {**body, **in_path}
