"""What every request passes on its way to an endpoint: who calls, limits on requests and their size, its id."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis.admission import Admission
from chassis.calls import REQUEST_ID_KEY, Call, current_call, request_id_from
from chassis.errors import ResourceExhausted, Unauthenticated, Unavailable
from gateway.http.door import CALLER, Door
from gateway.http.paths import routed
from gateway.http.problems import problem, too_large, too_slow

HEALTH = "/health"
PLACE = "hansei.place"
"""Key of the scope: what a request holds of the edge's limits, to be closed by one that is counted elsewhere."""


@dataclass(frozen=True, slots=True)
class Edge:
    """ASGI middleware. Health passes always; behind a guard everything else needs a credential (G-30)."""

    app: ASGIApp
    door: Door
    admission: Admission
    max_body_bytes: int
    body_seconds: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, or refuse it."""
        if scope["type"] != "http" or scope["path"] == HEALTH:
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        request_id = request_id_from([(REQUEST_ID_KEY, headers.get(REQUEST_ID_KEY, ""))])
        current_call.set(Call(f"{scope['method']} {scope['path']}", request_id))
        scope["path"] = routed(scope)
        try:
            scope[CALLER] = await self.door.caller(_credential(headers))
            with ExitStack() as place:
                place.enter_context(self.admission)
                scope[PLACE] = place
                try:
                    async with asyncio.timeout(self.body_seconds):
                        body = await self._body(headers, receive)
                except TimeoutError:
                    return await too_slow(self.body_seconds)(scope, receive, send)
                if body is None:
                    return await too_large(self.max_body_bytes)(scope, receive, send)
                return await self.app(scope, _replaying(body, receive), send)
        except Unauthenticated:
            refusal = JSONResponse({"error": "Unauthorized"}, 401, {"WWW-Authenticate": "Bearer"})
            return await refusal(scope, receive, send)
        except (ResourceExhausted, Unavailable) as refused:
            return await problem(refused)(scope, receive, send)

    async def _body(self, headers: Headers, receive: Receive) -> bytes | None:
        """The whole body; None if it is larger than allowed, of which no more is read than that."""
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared) > self.max_body_bytes:
            return None
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self.max_body_bytes:
                return None
            if not message.get("more_body", False):
                return bytes(body)


def _credential(headers: Headers) -> str:
    """The credential of a request; none if it bears several."""
    given = headers.getlist("authorization")
    return given[0] if len(given) == 1 else ""


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read, then whatever comes after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
