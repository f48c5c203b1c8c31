"""The edge: the checks that every call passes before its handler runs.

From the outermost inwards:

1. context: sets the correlation id and the trace of the caller, or new ones, and the idempotency key of a mutation;
2. telemetry: records a span, the duration by method and status, the reason of a failure, and a log record;
3. errors: converts exceptions to statuses, by `chassis.status`;
4. caller: with mutual TLS, refuses callers that are not allowed;
5. readiness: refuses calls before the service has started;
6. deadline: refuses a call whose deadline has passed; `chassis.deadlines` propagates the remaining time;
7. authorization: the guard authorizes the call;
8. admission: refuses calls beyond the limit;
9. validation: checks each request message against its contract.

Handlers are wrapped once, at registration, instead of by ``grpc.aio`` interceptors for each call: see
docs/adr/010-edge-without-interceptors.md. Health and reflection do not pass the edge.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.trace import Span, SpanKind

from chassis import deadlines, logging, status, telemetry
from chassis.calls import Call, current_call, read_correlation_id
from chassis.errors import HanseiError, InvalidArgument, Unavailable
from chassis.guard import AllowAll, Authorization, Guard, Metadata
from chassis.idempotency import normalize_key
from chassis.server import validation
from chassis.server.admission import OVERLOADED, Admission
from chassis.server.progress import DRAINING, RETRY_SECONDS, CallsInProgress, build_draining_error
from chassis.tls import Callers

log = logging.get_logger("hansei.calls")

_SERVER_FAULTS = {"INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAVAILABLE", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}


@dataclass(slots=True)
class ServiceGate:
    """The state that the methods of one gRPC service share: name in errors, readiness and limits."""

    name: str
    progress: CallsInProgress
    calls: Admission
    streams: Admission
    callers: Callers | None = None
    guard: Guard = field(default_factory=AllowAll)
    ready: bool = False

    def refuse_unless_ready(self) -> None:
        """Raise `Unavailable` until the service has started."""
        if not self.ready:
            raise Unavailable(f"{self.name} is starting", reason="SERVICE_STARTING", retry_after=RETRY_SECONDS)


@dataclass(slots=True)
class _CallInProgress:
    """A call in progress; `task` handles it."""

    metadata: Metadata
    span: Span
    began: float = field(default_factory=time.monotonic)
    task: asyncio.Task[object] | None = None


class MethodEdge:
    """One method of the contract, with the checks before its handler."""

    def __init__(self, path: str, handler: Any, gate: ServiceGate, *, endless: bool) -> None:
        self._path = path
        self._gate = gate
        self._endless = endless
        self._telemetry = telemetry.MethodTelemetry(path, SpanKind.SERVER)
        self._admission = gate.streams if handler.request_streaming or handler.response_streaming else gate.calls
        self._check = _choose_check(handler)
        self._behaviour = _get_behaviour(path, handler)
        self.handler = _replace_behaviour(handler, self._stream if handler.response_streaming else self._wrap_unary)

    async def _wrap_unary(self, request: Any, context: Any) -> Any:
        opened = self._begin(request, context)
        try:
            self._enter(opened, context)
            async with self._gate.guard.call(self._path, opened.metadata) as authorization:
                with self._admission:
                    checked_request = await self._check(request, authorization)
                    response = await self._behaviour(checked_request, context)
                self._telemetry.describe(opened.span, checked_request, response)
                response = await authorization.check_response(response)
        except BaseException as failure:
            await self._fail(opened, failure, context)
            raise
        self._finish(opened, "OK")
        return response

    async def _stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        opened = self._begin(request, context)
        try:
            self._enter(opened, context)
            async with self._gate.guard.call(self._path, opened.metadata) as authorization:
                with self._admission:
                    checked_request = await self._check(request, authorization)
                    async with aclosing(self._behaviour(checked_request, context)) as responses:
                        async for response in responses:
                            yield await authorization.check_response(response)
        except BaseException as failure:
            await self._fail(opened, failure, context)
            raise
        self._finish(opened, "OK")

    def _begin(self, request: Any, context: Any) -> _CallInProgress:
        metadata = context.invocation_metadata() or ()
        key = normalize_key(request.message) if isinstance(request, _ReadRequest) and not request.fault else ""
        call = Call(self._path, read_correlation_id(metadata), key)
        current_call.set(call)
        span = self._telemetry.begin(telemetry.extract_context(metadata))
        if span.is_recording():
            span.set_attribute("correlation_id", call.correlation_id)
        telemetry.enter(span)
        return _CallInProgress(metadata, span)

    def _enter(self, opened: _CallInProgress, context: Any) -> None:
        opened.task = self._gate.progress.begin(endless=self._endless)
        if self._gate.callers is not None:
            self._gate.callers.check(context)
        self._gate.refuse_unless_ready()
        deadlines.begin(context.time_remaining())

    async def _fail(self, opened: _CallInProgress, failure: BaseException, context: Any) -> None:
        """Abort the call with the status for `failure`. Return for cancellations, which the caller raises again."""
        match failure:
            case asyncio.CancelledError() if opened.task and self._gate.progress.was_ended(opened.task):
                opened.task.uncancel()
                error: HanseiError = build_draining_error()
            case asyncio.CancelledError() | GeneratorExit():
                left = deadlines.get_remaining()
                self._finish(opened, "DEADLINE_EXCEEDED" if left is not None and left <= 0 else "CANCELLED")
                return
            case HanseiError():
                error = failure
            case grpc.aio.AbortError() | grpc.aio.UsageError():
                self._finish(opened, _get_code_name(context.code()))
                return
            case Exception():
                error = status.build_unknown_failure()
                log.error("call failed unexpectedly", error_id=error.metadata["error_id"], exc_info=failure)
            case _:
                self._finish(opened, "UNKNOWN")
                return
        self._finish(opened, error.code, error.reason)
        wire = status.encode(error, self._gate.name)
        await context.abort(wire.code, wire.message, wire.trailers)

    def _finish(self, opened: _CallInProgress, code: str, reason: str = "") -> None:
        seconds = time.monotonic() - opened.began
        if opened.task is not None:
            self._gate.progress.end(opened.task)
        self._telemetry.end(opened.span, code, seconds, reason)
        if code == "OK" or reason == OVERLOADED:  # a flood of calls must not flood the log
            log.debug("call", code=code, reason=reason, seconds=seconds)
        elif code in _SERVER_FAULTS and reason != DRAINING:
            log.warning("call", code=code, reason=reason, seconds=seconds)
        else:
            log.info("call", code=code, reason=reason, seconds=seconds)


def _choose_check(handler: Any) -> Callable[[Any, Authorization], Awaitable[Any]]:
    """Return the check of a method's requests. Bytes are passed to another service, which checks them."""
    if handler.request_streaming:
        return _check_requests
    return _authorize_bytes if handler.request_deserializer is None else _check_and_authorize


async def _authorize_bytes(request: Any, authorization: Authorization) -> Any:
    return await authorization.check_request(request)


async def _check_and_authorize(request: _ReadRequest, authorization: Authorization) -> Any:
    if request.fault:
        raise InvalidArgument(request.fault, reason="MALFORMED_MESSAGE")
    validation.check(request.message, may_contain_nul=request.may_contain_nul)
    return await authorization.check_request(request.message)


async def _check_requests(requests: AsyncIterator[Any], authorization: Authorization) -> AsyncIterator[Any]:
    async def iterate_checked_requests() -> AsyncIterator[Any]:
        call = current_call.get()
        async for request in requests:
            if isinstance(request, bytes):
                yield await _authorize_bytes(request, authorization)
                continue
            if call is not None and not call.request_id and not request.fault:
                call.request_id = normalize_key(request.message)
            yield await _check_and_authorize(request, authorization)

    return iterate_checked_requests()


def _get_behaviour(path: str, handler: Any) -> Callable[[Any, Any], Any]:
    """Return the function of a handler. Raises TypeError if it is not asynchronous: gRPC would run it in a thread."""
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


def _replace_behaviour(handler: Any, behaviour: Callable[[Any, Any], Any]) -> Any:
    """Return a copy of the handler that calls `behaviour` instead of its own function."""
    kinds = ("stream" if streams else "unary" for streams in (handler.request_streaming, handler.response_streaming))
    make = getattr(grpc, f"{'_'.join(kinds)}_rpc_method_handler")
    parse = _choose_deserializer(handler.request_deserializer)
    return make(behaviour, parse, _pass_through_bytes(handler.response_serializer))


class _ReadRequest(NamedTuple):
    """A request as it was read. No text contains U+0000 if no byte is 0.

    ``fault`` says why bytes are no message, because gRPC answers errors of a deserializer itself, as UNKNOWN.
    """

    message: Any
    may_contain_nul: bool = False
    fault: str = ""


def _choose_deserializer(parse: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    """Return the deserializer of a method's requests, which returns a `_ReadRequest`; None for requests as bytes."""
    if parse is None:
        return None

    def read_request(content: bytes) -> _ReadRequest:
        try:
            return _ReadRequest(parse(content), b"\0" in content)
        except DecodeError as error:
            return _ReadRequest(None, fault=f"the request cannot be read as protobuf: {error}")

    return read_request


def _pass_through_bytes(serialize: Callable[[Any], bytes] | None) -> Callable[[Any], bytes] | None:
    """Return the serializer of a method's responses, which passes serialized messages through unchanged."""
    if serialize is None:
        return None
    return lambda response: response if type(response) is bytes else serialize(response)


def _get_code_name(code: Any) -> str:
    """Return the name of a context's code, which grpc.aio has as an enum member or as its number."""
    if isinstance(code, grpc.StatusCode):
        return code.name
    return next((member.name for member in grpc.StatusCode if member.value[0] == code), "UNKNOWN")
