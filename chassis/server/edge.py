"""What every call passes on its way to a handler.

Outermost first:

1. context: the correlation id and the trace the caller sent, or new ones, and the idempotency key of a mutation,
   current for everything below;
2. telemetry: a span, the duration by method and status, a log record;
3. errors: whatever is raised below becomes a status, by the table in `chassis.status`;
4. caller: with mutual TLS, whoever is not among those who may call is refused;
5. readiness: a service that has not started yet refuses;
6. deadline: a call whose time is over is refused; what is left is handed down by `chassis.deadlines`;
7. admission: one call too many is refused;
8. validation: each request message is checked against its contract.

Handlers are wrapped once, at registration, rather than by ``grpc.aio`` interceptors for each call: see
docs/adr/010-edge-without-interceptors.md. Health and reflection are registered as they are and pass nothing of this.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import Message
from opentelemetry.trace import Span, SpanKind

from chassis import deadlines, logging, status, telemetry
from chassis.calls import Call, correlation_id_from, current_call
from chassis.errors import HanseiError, Unavailable
from chassis.guard import Guard, Metadata, Open, Permit
from chassis.idempotency import normalize_key
from chassis.server import validation
from chassis.server.admission import OVERLOADED, Admission
from chassis.server.progress import DRAINING, RETRY_SECONDS, CallsInProgress, going_away
from chassis.tls import Callers

log = logging.get_logger("hansei.calls")

_OUR_FAULT = {"INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAVAILABLE", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}


@dataclass(slots=True)
class ServiceGate:
    """What the methods of one gRPC service share: its name in errors, its readiness and its limits."""

    name: str
    progress: CallsInProgress
    calls: Admission
    streams: Admission
    callers: Callers | None = None
    guard: Guard = field(default_factory=Open)
    ready: bool = False

    def refuse_unless_ready(self) -> None:
        """Raise `Unavailable` until the service can answer."""
        if not self.ready:
            raise Unavailable(f"{self.name} is starting", reason="SERVICE_STARTING", retry_after=RETRY_SECONDS)


class _OpenCall:
    """A call that has arrived and not ended."""

    __slots__ = ("began", "metadata", "span", "task")

    def __init__(self, metadata: Metadata, span: Span) -> None:
        self.metadata = metadata
        self.span = span
        self.began = time.monotonic()
        self.task: asyncio.Task[object] | None = None


class MethodEdge:
    """One method of the contract, with everything a call passes on its way to the handler."""

    def __init__(self, path: str, handler: Any, gate: ServiceGate, *, endless: bool) -> None:
        self._path = path
        self._gate = gate
        self._endless = endless
        self._telemetry = telemetry.MethodTelemetry(path, SpanKind.SERVER)
        self._admission = gate.streams if handler.request_streaming or handler.response_streaming else gate.calls
        self._checked = _checking(handler)
        self._behaviour = _behaviour(path, handler)
        self.handler = _with_behaviour(handler, self._stream if handler.response_streaming else self._unary)

    async def _unary(self, request: Any, context: Any) -> Any:
        opened = self._begin(request, context)
        try:
            self._enter(opened, context)
            async with self._gate.guard.call(self._path, opened.metadata) as permit:
                with self._admission:
                    response = await self._behaviour(await self._checked(request, permit), context)
                response = await permit.response(response)
        except BaseException as failure:
            await self._fail(opened, failure, context)
            raise
        self._finish(opened, "OK")
        return response

    async def _stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        opened = self._begin(request, context)
        try:
            self._enter(opened, context)
            async with self._gate.guard.call(self._path, opened.metadata) as permit:
                with self._admission:
                    checked = await self._checked(request, permit)
                    async with aclosing(self._behaviour(checked, context)) as responses:
                        async for response in responses:
                            yield await permit.response(response)
        except BaseException as failure:
            await self._fail(opened, failure, context)
            raise
        self._finish(opened, "OK")

    def _begin(self, request: Any, context: Any) -> _OpenCall:
        metadata = context.invocation_metadata() or ()
        key = normalize_key(request) if isinstance(request, Message) else ""
        call = Call(self._path, correlation_id_from(metadata), key)
        current_call.set(call)
        span = self._telemetry.begin(telemetry.context_from(metadata))
        if span.is_recording():
            span.set_attribute("correlation_id", call.correlation_id)
        telemetry.enter(span)
        return _OpenCall(metadata, span)

    def _enter(self, opened: _OpenCall, context: Any) -> None:
        opened.task = self._gate.progress.begin(endless=self._endless)
        if self._gate.callers is not None:
            self._gate.callers.check(context)
        self._gate.refuse_unless_ready()
        deadlines.begin(context.time_remaining())

    async def _fail(self, opened: _OpenCall, failure: BaseException, context: Any) -> None:
        """Answer with the status for `failure`. Returns, for it to be raised again, if it is not ours to answer."""
        match failure:
            case asyncio.CancelledError() if opened.task and self._gate.progress.was_ended(opened.task):
                opened.task.uncancel()
                error: HanseiError = going_away()
            case asyncio.CancelledError() | GeneratorExit():
                left = deadlines.remaining()
                self._finish(opened, "DEADLINE_EXCEEDED" if left is not None and left <= 0 else "CANCELLED")
                return
            case HanseiError():
                error = failure
            case grpc.aio.AbortError() | grpc.aio.UsageError():
                self._finish(opened, _code_name(context.code()))
                return
            case Exception():
                error = status.unknown_failure()
                log.error("call failed unexpectedly", error_id=error.metadata["error_id"], exc_info=failure)
            case _:
                self._finish(opened, "UNKNOWN")
                return
        self._finish(opened, error.code, error.reason)
        wire = status.encode(error, self._gate.name)
        await context.abort(wire.code, wire.message, wire.trailers)

    def _finish(self, opened: _OpenCall, code: str, reason: str = "") -> None:
        seconds = time.monotonic() - opened.began
        if opened.task is not None:
            self._gate.progress.end(opened.task)
        self._telemetry.end(opened.span, code, seconds)
        if code == "OK" or reason == OVERLOADED:  # a flood is counted, not written down
            log.debug("call", code=code, reason=reason, seconds=seconds)
        elif code in _OUR_FAULT and reason != DRAINING:
            log.warning("call", code=code, reason=reason, seconds=seconds)
        else:
            log.info("call", code=code, reason=reason, seconds=seconds)


def _checking(handler: Any) -> Callable[[Any, Permit], Awaitable[Any]]:
    """What checks a method's requests. Bytes are handed on to another service, which checks them."""
    if handler.request_streaming:
        return _each
    return _handed_on if handler.request_deserializer is None else _checked


async def _handed_on(request: Any, permit: Permit) -> Any:
    return await permit.request(request)


async def _checked(request: Any, permit: Permit) -> Any:
    validation.check(request)
    return await permit.request(request)


async def _each(requests: AsyncIterator[Any], permit: Permit) -> AsyncIterator[Any]:
    async def one_by_one() -> AsyncIterator[Any]:
        call = current_call.get()
        async for request in requests:
            if call is not None and not call.request_id and isinstance(request, Message):
                call.request_id = normalize_key(request)
            yield await (_handed_on if isinstance(request, bytes) else _checked)(request, permit)

    return one_by_one()


def _behaviour(path: str, handler: Any) -> Callable[[Any, Any], Any]:
    """The function behind a handler. It must be asynchronous: anything else would run in a thread nobody drains."""
    behaviour = (
        (handler.stream_stream or handler.unary_stream)
        if handler.response_streaming
        else (handler.stream_unary or handler.unary_unary)
    )
    expected = inspect.isasyncgenfunction if handler.response_streaming else inspect.iscoroutinefunction
    if not expected(behaviour):
        kind = "async generator" if handler.response_streaming else "coroutine"
        raise TypeError(f"the handler of {path} must be an {kind} function")
    return behaviour  # type: ignore[no-any-return]


def _with_behaviour(handler: Any, behaviour: Callable[[Any, Any], Any]) -> grpc.RpcMethodHandler[Any, Any]:
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    return make(behaviour, handler.request_deserializer, _written(handler.response_serializer))


def _written(serialize: Callable[[Any], bytes] | None) -> Callable[[Any], bytes] | None:
    """What writes a method's responses. A handler may answer with bytes: a message in its wire form already."""
    if serialize is None:
        return None
    return lambda response: response if type(response) is bytes else serialize(response)


def _code_name(code: Any) -> str:
    """The name of a context's code, which grpc.aio gives as an enum member or as its number."""
    if isinstance(code, grpc.StatusCode):
        return code.name
    return next((known.name for known in grpc.StatusCode if known.value[0] == code), "UNKNOWN")
