"""OTLP over HTTP: `POST /v1/traces` and `POST /v1/logs`, in protobuf or JSON."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import code_pb2, status_pb2
from starlette.requests import Request
from starlette.responses import Response

from chassis.errors import HanseiError
from gateway.contract import get_path
from gateway.http.auth import Authentication
from gateway.http.json_codec import convert
from gateway.http.problems import get_http_status
from gateway.otlp.rpc.convert import JSON, PROTOBUF, decode_request, decompress, encode_response
from gateway.otlp.rpc.servicer import LOGS_METHOD, TRACE_METHOD
from gateway.otlp.usecases.receive_exports import ExportReceiver

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            PROTOBUF: {"schema": {"type": "string", "format": "binary"}},
            JSON: {"schema": {"type": "object"}},
        },
    },
    "responses": {"200": {"description": "Accepted; `partial_success` names what was rejected and why."}},
}


def build_routes(receiver: ExportReceiver, authentication: Authentication, max_bytes: int) -> APIRouter:
    """Return the endpoints of OTLP. `max_bytes` limits a body without its compression."""
    router = APIRouter()

    async def export(request: Request, method: MethodDescriptor, receive: Callable[[Any], Awaitable[Message]]) -> Any:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            async with authentication.authorize(get_path(method), request):
                encoding = request.headers.get("content-encoding", "").strip().lower()
                body = decompress(await request.body(), encoding, max_bytes)
                message = GetMessageClass(method.input_type)()
                response = await receive(await convert(len(body), decode_request, body, content_type, message))
        except HanseiError as error:
            return _answer_error(error, content_type)
        return Response(encode_response(response, content_type), media_type=content_type)

    @router.post(
        "/v1/traces",
        tags=["otlp"],
        operation_id="Otlp_ExportTraces",
        summary="Send spans by OTLP",
        response_model=None,
        openapi_extra=_BODY,
    )
    async def export_traces(request: Request) -> Any:
        """Store spans of agents; a trace whose root has ended is learned as a job of its dataset."""
        return await export(request, TRACE_METHOD, receiver.receive_spans)

    @router.post(
        "/v1/logs",
        tags=["otlp"],
        operation_id="Otlp_ExportLogs",
        summary="Send events by OTLP",
        response_model=None,
        openapi_extra=_BODY,
    )
    async def export_logs(request: Request) -> Any:
        """Store events of the GenAI conventions, such as evaluations; other log records are ignored."""
        return await export(request, LOGS_METHOD, receiver.receive_logs)

    return router


def _answer_error(error: HanseiError, content_type: str) -> Response:
    """Return the status message that OTLP prescribes, in the encoding of the request."""
    media_type = content_type if content_type in (PROTOBUF, JSON) else JSON
    message = status_pb2.Status(code=code_pb2.Code.Value(error.code), message=error.message)
    headers = {} if error.retry_after is None else {"Retry-After": str(math.ceil(error.retry_after))}
    return Response(encode_response(message, media_type), get_http_status(error), headers, media_type)
