"""Serve the agent: JSON-RPC and the card over HTTP, and gRPC."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import grpc
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.grpc_handler import DefaultGrpcServerCallContextBuilder, GrpcHandler
from a2a.server.routes import DefaultServerCallContextBuilder, create_agent_card_routes, create_jsonrpc_routes
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from chassis.guard import AUTHORIZATION
from chassis.settings import BadSetting
from hansei.a2a_server.card import build_card
from hansei.a2a_server.handler import PlanTasks
from hansei.client.callers import CallerClients, choose_http_status
from hansei.client.client import AsyncClient
from hansei.client.errors import HanseiError
from hansei.client.listeners import (
    STOP_SECONDS,
    build_transport_security,
    format_address,
    listen,
    read_host,
    require_protection,
    serve_app,
    split_address,
)

RPC_PATH = "/a2a"
MAX_BODY_BYTES = 1024 * 1024
"""The size of a request; a message has at most 10,000 characters."""
TOKEN_OPTION = "--require-token"  # noqa: S105  the name of an option
_REFUSED_TOKEN = (
    "missing or invalid credential: send an API key, or a token of the issuer, as `Authorization: Bearer …`"  # noqa: S105
)


async def serve(
    client: AsyncClient,
    http_address: str,
    grpc_address: str,
    announce: Callable[[str, str], None],
    *,
    callers: CallerClients | None = None,
    allowed_hosts: Sequence[str] = (),
    public_url: str = "",
    public_grpc_address: str = "",
) -> None:
    """Serve at both addresses, each `host:port`, until a signal; `announce` gets the URL and the gRPC address.

    With `callers`, a request needs a token that the gateway accepts, and has the rights of its caller; otherwise
    requests have the rights of `client`. The card names `public_url` and `public_grpc_address`, if a proxy is in front.

    Raises:
        BadSetting: an address is invalid or in use, or other machines can reach it and callers are not authenticated.
    """
    host, port = split_address(http_address)
    grpc_host, grpc_port = split_address(grpc_address)
    if public_url:
        allowed_hosts = [*allowed_hosts, read_host(public_url)]
    for name in (host, grpc_host):
        require_protection(
            name, public_url, allowed_hosts, authenticates=callers is not None, token_option=TOKEN_OPTION
        )

    def choose_client(context: ServerCallContext) -> AsyncClient:
        return client if callers is None else callers.get_client(context.state["token"])

    tasks = PlanTasks(choose_client)
    server = grpc.aio.server(
        interceptors=[_TokenInterceptor(callers)] if callers else [],
        options=[("grpc.max_receive_message_length", MAX_BODY_BYTES), ("grpc.so_reuseport", 0)],
    )
    add_A2AServiceServicer_to_server(GrpcHandler(tasks, _GrpcContextBuilder()), server)
    try:
        bound_port = server.add_insecure_port(f"[{grpc_host}]:{grpc_port}" if ":" in grpc_host else grpc_address)
    except RuntimeError as error:
        raise BadSetting(f"cannot listen at {grpc_address}: {error}") from error
    with listen(host, port) as listener:
        url = public_url or f"http://{format_address(host, listener)}"
        grpc_url = public_grpc_address or f"{grpc_address.rpartition(':')[0]}:{bound_port}"
        card = build_card(url.rstrip("/") + RPC_PATH, grpc_url, requires_token=callers is not None)
        app = Starlette(
            routes=[
                *create_agent_card_routes(card),
                *create_jsonrpc_routes(tasks, RPC_PATH, _HttpContextBuilder()),
            ],
            middleware=[
                Middleware(RequestBodyLimitMiddleware, max_body_size=MAX_BODY_BYTES),
                Middleware(_RequestChecks, allowed_hosts=allowed_hosts, callers=callers),
            ],
        )
        await server.start()
        try:
            await serve_app(app, listener, lambda: announce(url, grpc_url))
        finally:
            await server.stop(STOP_SECONDS)


class _HttpContextBuilder(DefaultServerCallContextBuilder):
    """Adds the token of the caller to the context of a request."""

    def build(self, request: Request) -> ServerCallContext:
        context: ServerCallContext = super().build(request)
        context.state["token"] = _read_token(request.headers.get(AUTHORIZATION, ""))
        return context


class _GrpcContextBuilder(DefaultGrpcServerCallContextBuilder):
    """Adds the token of the caller to the context of a call."""

    def build(self, context: grpc.aio.ServicerContext[Any, Any]) -> ServerCallContext:
        call_context: ServerCallContext = super().build(context)
        call_context.state["token"] = _read_token(_find_authorization(context.invocation_metadata()))
        return call_context


class _RequestChecks:
    """Refuses requests of pages in a browser, and with `callers` requests without a valid token."""

    def __init__(self, app: ASGIApp, allowed_hosts: Sequence[str], callers: CallerClients | None) -> None:
        self._app = app
        self._security = TransportSecurityMiddleware(build_transport_security(allowed_hosts))
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal: Response | None = await self._security.validate_request(request, is_post=request.method == "POST")
        if refusal is None and self._callers is not None and request.url.path == RPC_PATH:
            refusal = await _refuse_request(self._callers, request.headers.get(AUTHORIZATION, ""))
        await (refusal or self._app)(scope, receive, send)


async def _find_refusal(callers: CallerClients, authorization: str) -> tuple[grpc.StatusCode, str] | None:
    """Return status and message for a caller whose token is not valid, or cannot be verified; None for a valid one."""
    token = _read_token(authorization)
    try:
        if token and await callers.verify(token) is not None:
            return None
    except HanseiError as error:
        return grpc.StatusCode[error.code], error.message
    return grpc.StatusCode.UNAUTHENTICATED, _REFUSED_TOKEN


async def _refuse_request(callers: CallerClients, authorization: str) -> Response | None:
    """Return the response to a request of a caller that is refused; None for one with a valid token."""
    refusal = await _find_refusal(callers, authorization)
    if refusal is None:
        return None
    code, message = refusal
    headers = {"www-authenticate": "Bearer"} if code is grpc.StatusCode.UNAUTHENTICATED else None
    return JSONResponse({"error": message}, choose_http_status(code.name), headers)


if TYPE_CHECKING:
    _Interceptor = grpc.aio.ServerInterceptor[Any, Any]
else:
    _Interceptor = grpc.aio.ServerInterceptor


class _TokenInterceptor(_Interceptor):
    """Refuses calls without a valid token."""

    def __init__(self, callers: CallerClients) -> None:
        self._callers = callers

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Return the handler of a call, or one that refuses it."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        refusal = await _find_refusal(self._callers, _find_authorization(handler_call_details.invocation_metadata))
        return handler if refusal is None else _build_refusing_handler(handler.response_streaming, *refusal)


def _build_refusing_handler(is_streaming: bool, code: grpc.StatusCode, message: str) -> grpc.RpcMethodHandler[Any, Any]:
    async def refuse(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.abort(code, message)

    async def refuse_stream(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        await context.abort(code, message)
        yield

    if is_streaming:
        return grpc.unary_stream_rpc_method_handler(refuse_stream)
    return grpc.unary_unary_rpc_method_handler(refuse)


def _find_authorization(metadata: Any) -> str:
    return next((str(value) for key, value in metadata or () if key == AUTHORIZATION), "")


def _read_token(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
