"""The endpoints under `/v1` as routes: methods of the contracts as JSON, errors as problem documents."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, aclosing
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.requests import Request

from chassis import deadlines
from chassis.admission import Admission
from chassis.errors import InvalidArgument, Violation, shortened
from chassis.guard import Permit
from chassis.policy import Policies
from chassis.progress import CallsInProgress
from gateway.http.bodies import write_message
from gateway.http.documents import documented
from gateway.http.door import Door
from gateway.http.edge import PLACE
from gateway.http.endpoints import Endpoint, Resumption
from gateway.http.events import EventStream
from gateway.http.face import Methods
from gateway.http.paths import template
from gateway.http.reading import reader
from gateway.rpc.passthrough import path_of

LAST_EVENT = "last-event-id"
_POSITION = re.compile(r"[0-9]{1,18}")


class Routes:
    """Makes a route of each endpoint. Streams have a limit of their own and end when the server goes."""

    def __init__(
        self, methods: Methods, policies: Policies, door: Door, streams: Admission, progress: CallsInProgress
    ) -> None:
        self._methods = methods
        self._policies = policies
        self._door = door
        self._streams = streams
        self._progress = progress

    def of(self, listed: Sequence[Endpoint]) -> APIRouter:
        """The endpoints as routes."""
        router = APIRouter()
        for endpoint in listed:
            router.add_api_route(
                template(endpoint.path),
                self._streaming(endpoint) if endpoint.method.server_streaming else self._answering(endpoint),
                methods=[endpoint.verb],
                summary=endpoint.summary,
                operation_id=f"{endpoint.verb} {endpoint.path}",
                tags=[endpoint.method.containing_service.name],
                openapi_extra=documented(endpoint),
                response_model=None,
            )
        return router

    def _answering(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        read, call, seconds = reader(endpoint), self._methods.of(endpoint.method), self._seconds(endpoint)
        path = path_of(endpoint.method)

        async def handle(request: Request) -> Response:
            asked = await read(request)
            async with self._door.permit(path, request) as permit:
                with deadlines.within(seconds):
                    answer = await permit.response(await call(await _permitted(permit, asked)))
            return await write_message(answer)

        return handle

    def _streaming(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        read, call, seconds = reader(endpoint), self._methods.of(endpoint.method), self._seconds(endpoint)
        path = path_of(endpoint.method)

        async def messages(asked: Any, request: Request) -> AsyncIterator[Any]:
            async with (
                self._door.permit(path, request) as permit,
                aclosing(call(await permit.request(asked))) as answers,
            ):
                async for answer in answers:
                    yield await permit.response(answer)

        async def handle(request: Request) -> Response:
            asked = await read(request)
            _resume(asked, endpoint.resumption, request.headers.get(LAST_EVENT, ""))
            with ExitStack() as entering:
                entering.enter_context(self._streams)
                request.scope[PLACE].close()  # streams are counted among themselves
                place = entering.pop_all()
            told = messages(asked, request)
            stream = EventStream(told, seconds=seconds, progress=self._progress, place=place)
            return await stream.response(_identity(endpoint.resumption))

        return handle

    def _seconds(self, endpoint: Endpoint) -> float | None:
        return self._policies[path_of(endpoint.method)].timeout_seconds


async def _permitted(permit: Permit, asked: Any) -> Any:
    """A request as its caller may make it; a list of them as the stream that its method takes."""
    return _each(permit, asked) if isinstance(asked, list) else await permit.request(asked)


async def _each(permit: Permit, asked: list[Any]) -> AsyncIterator[Any]:
    for message in asked:
        yield await permit.request(message)


def _resume(asked: Any, resumption: Resumption | None, last_event: str) -> None:
    """Have a stream go on after the last event that its reader saw. Raises InvalidArgument."""
    if not last_event or resumption is None or not resumption.after:
        return
    if not _POSITION.fullmatch(last_event):
        rule = f"Last-Event-ID must be the id of an event of this stream, not {shortened(repr(last_event))}"
        raise InvalidArgument(rule, violations=[Violation(LAST_EVENT, rule)])
    setattr(asked, resumption.after, int(last_event))
    for name in resumption.fresh:
        asked.ClearField(name)


def _identity(resumption: Resumption | None) -> Callable[[Any], str | None]:
    if resumption is None:
        return lambda message: None

    def identity(message: Any) -> str | None:
        position = resumption.position(message)
        return None if position is None else str(position)

    return identity
