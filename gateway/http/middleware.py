"""Middleware before every endpoint: correlation id, authentication, limits on requests and their size."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis.calls import CORRELATION_ID_KEY, Call, current_call, read_correlation_id
from chassis.errors import HanseiError, Unauthenticated
from chassis.server.admission import Admission
from gateway.http.auth import CALLER, Authentication
from gateway.http.paths import decode_path
from gateway.http.problems import build_problem, build_too_large, build_too_slow

HEALTH = "/health"
SLOT = "hansei.slot"
"""Key of the admission slot in the scope of a request; an event stream closes it."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """ASGI middleware. Health always passes; with a guard every other request needs a credential (G-30)."""

    app: ASGIApp
    authentication: Authentication
    admission: Admission
    max_body_bytes: int
    body_seconds: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, or refuse it."""
        if scope["type"] != "http" or scope["path"] == HEALTH:
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        correlation_id = read_correlation_id([(CORRELATION_ID_KEY, headers.get(CORRELATION_ID_KEY, ""))])
        current_call.set(Call(f"{scope['method']} {scope['path']}", correlation_id))
        scope["path"] = decode_path(scope)
        try:
            self.authentication.refuse_other_pages(headers)
            scope[CALLER] = await self.authentication.authenticate_caller(headers)
            with ExitStack() as slot:
                slot.enter_context(self.admission)
                scope[SLOT] = slot
                try:
                    async with asyncio.timeout(self.body_seconds):
                        body = await self._read_body(headers, receive)
                except TimeoutError:
                    return await build_too_slow(self.body_seconds)(scope, receive, send)
                except ClientDisconnect:
                    return None
                if body is None:
                    return await build_too_large(self.max_body_bytes)(scope, receive, send)
                return await self.app(scope, _replay(body, receive), send)
        except Unauthenticated:
            refusal = JSONResponse({"error": "Unauthorized"}, 401, {"WWW-Authenticate": "Bearer"})
            return await refusal(scope, receive, send)
        except HanseiError as error:
            return await build_problem(error)(scope, receive, send)

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes | None:
        """Return the body; None, without reading the rest, if it is too large.

        Raises ClientDisconnect for a body that does not arrive whole: its beginning may look like a whole one.
        """
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared) > self.max_body_bytes:
            return None
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > self.max_body_bytes:
                return None
            if not message.get("more_body", False):
                return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a function that returns the body, then the messages of `receive`."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return pending.pop() if pending else await receive()

    return next_message
