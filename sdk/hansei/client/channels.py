"""The channel of the blocking client, with the deadlines, retries, traces and errors of `chassis.channels`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import grpc

from chassis import deadlines
from chassis.calls import CORRELATION_ID_KEY, get_correlation_id
from chassis.channel_options import build_channel_options, build_target
from chassis.errors import ClientClosed
from chassis.guard import AUTHORIZATION
from chassis.policy import load_policies

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from chassis.telemetry import MethodTelemetry

MAX_MESSAGE_BYTES = 16 * 1024 * 1024


class BlockingChannel(grpc.Channel):
    """A channel whose calls have a deadline and raise the errors of `chassis.errors`. It is thread-safe."""

    def __init__(
        self,
        peer: str,
        address: str,
        authorization: str,
        credentials: grpc.ChannelCredentials | None,
    ) -> None:
        self._peer = peer
        self._metadata = ((AUTHORIZATION, authorization),) if authorization else ()
        self._policies = load_policies()
        self._telemetry: dict[str, MethodTelemetry] = {}
        self._is_closed = False
        options = build_channel_options(self._policies, MAX_MESSAGE_BYTES, follow_health=True)
        self._connection = (
            grpc.secure_channel(build_target(address), credentials, options=options)
            if credentials
            else grpc.insecure_channel(build_target(address), options=options)
        )

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return a method with one request and one response."""
        return self._wrap_single(method, self._bind("unary_unary", method, *args, **kwargs))

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return a method with a stream of requests and one response."""
        return self._wrap_single(method, self._bind("stream_unary", method, *args, **kwargs))

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return a method with one request and a stream of responses."""
        return self._wrap_stream(method, self._bind("unary_stream", method, *args, **kwargs))

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return a method with a stream of requests and a stream of responses."""
        return self._wrap_stream(method, self._bind("stream_stream", method, *args, **kwargs))

    def _wrap_single(self, path: str, send: Any) -> Any:
        def send_observed(request: Any) -> Any:
            self._require_open()
            with self._observe(path) as span:
                response = send(request, **self._build_call_options(path, span))
                if span is not None:
                    self._telemetry[path].describe(span, request, response)
                return response

        return send_observed

    def _wrap_stream(self, path: str, send: Any) -> Any:
        def iterate_responses(request: Any) -> Iterator[Any]:
            self._require_open()
            with self._observe(path) as span:
                call = send(request, **self._build_call_options(path, span))
                try:
                    yield from call
                finally:
                    call.cancel()

        return iterate_responses

    def _bind(self, arity: str, *args: Any, **kwargs: Any) -> Any:
        self._require_open()
        return getattr(self._connection, arity)(*args, **kwargs)

    def _require_open(self) -> None:
        """Raise ClientClosed if the channel is closed: gRPC may end the process at the use of a closed one."""
        if self._is_closed:
            raise ClientClosed(self._peer)

    @contextmanager
    def _observe(self, path: str) -> Iterator[Span | None]:
        """Record the span and the metrics of a call, unless it is None, and raise the error that the server sent."""
        telemetry = self._find_telemetry(path)
        span = None if telemetry is None else telemetry.begin()
        start, code = time.monotonic(), "OK"
        try:
            yield span
        except grpc.RpcError as failure:
            from chassis import status

            # A blocking call raises an error with the interface of AioRpcError: code, details, trailers.
            error = status.decode(cast(grpc.aio.AioRpcError, failure), self._peer)
            code = error.code
            raise error from failure
        except GeneratorExit:
            code = "CANCELLED"  # the caller closed the stream
            raise
        except BaseException:
            code = "UNKNOWN"
            raise
        finally:
            if telemetry is not None and span is not None:
                telemetry.end(span, code, time.monotonic() - start)

    def _find_telemetry(self, path: str) -> MethodTelemetry | None:
        """Return the telemetry of a method; None for a program that has not imported OpenTelemetry.

        Such a program can have no tracing, and its calls start faster without it.
        """
        if "opentelemetry" not in sys.modules:
            return None
        from opentelemetry.trace import SpanKind

        from chassis.telemetry import MethodTelemetry

        if path not in self._telemetry:
            self._telemetry[path] = MethodTelemetry(path, SpanKind.CLIENT)
        return self._telemetry[path]

    def _build_call_options(self, path: str, span: Span | None) -> dict[str, Any]:
        metadata = ((CORRELATION_ID_KEY, get_correlation_id()), *_build_trace_metadata(span), *self._metadata)
        policy = self._policies[path]
        # Within `deadlines.time_limit` a method that works with a model may take longer than by default.
        is_limited = policy.longest_seconds is not None and deadlines.get_remaining() is not None
        seconds = policy.longest_seconds if is_limited else policy.timeout_seconds
        return {"timeout": deadlines.compute_budget(seconds), "metadata": metadata}

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        """Call `callback` at every change of the connection's state."""
        self._connection.subscribe(callback, bool(try_to_connect))

    def unsubscribe(self, callback: Any) -> None:
        """Stop calling `callback`."""
        self._connection.unsubscribe(callback)

    def close(self) -> None:
        """Close the connection; calls in progress are cancelled."""
        self._is_closed = True
        self._connection.close()

    def __enter__(self) -> BlockingChannel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _build_trace_metadata(span: Span | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata that makes the span of the server a child of the caller's."""
    if span is None:
        return ()
    from chassis.telemetry import build_metadata

    return build_metadata(span)
