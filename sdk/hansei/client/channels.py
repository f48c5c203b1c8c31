"""The channel of the blocking client: deadlines, retries, traces and errors of `chassis.channels`, without a loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import grpc
from opentelemetry.trace import Span, SpanKind

from chassis import deadlines, status
from chassis.calls import CORRELATION_ID_KEY, correlation_id
from chassis.channels import channel_options, target
from chassis.errors import HanseiError
from chassis.guard import AUTHORIZATION
from chassis.policy import MethodPolicy, Policies
from chassis.telemetry import MethodTelemetry, metadata_for

MAX_MESSAGE_BYTES = 16 * 1024 * 1024


class BlockingChannel(grpc.Channel):
    """A channel for generated stubs whose calls have a deadline and raise the errors of `chassis.errors`.

    Safe to use from many threads.
    """

    def __init__(
        self,
        peer: str,
        address: str,
        policies: Policies,
        credential: str = "",
        tls: grpc.ChannelCredentials | None = None,
    ) -> None:
        self._peer = peer
        self._metadata = ((AUTHORIZATION, credential),) if credential else ()
        self._policies = policies
        options = channel_options(policies, MAX_MESSAGE_BYTES, follow_health=True)
        self._connection = (
            grpc.secure_channel(target(address), tls, options=options)
            if tls
            else grpc.insecure_channel(target(address), options=options)
        )

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A method with one response."""
        return self._single(method, self._connection.unary_unary(method, *args, **kwargs))

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A method with a stream of requests and one response."""
        return self._single(method, self._connection.stream_unary(method, *args, **kwargs))

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A method with a stream of responses."""
        return self._stream(method, self._connection.unary_stream(method, *args, **kwargs))

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A method with a stream of requests and a stream of responses."""
        return self._stream(method, self._connection.stream_stream(method, *args, **kwargs))

    def _single(self, path: str, inner: Any) -> Any:
        policy, peer, told = self._policies[path], self._peer, MethodTelemetry(path, SpanKind.CLIENT)

        def call(request: Any) -> Any:
            span, began, code = told.begin(), time.monotonic(), "OK"
            try:
                return inner(request, timeout=_seconds(policy), metadata=_metadata(span, self._metadata))
            except grpc.RpcError as failure:
                error = _error(failure, peer)
                code = error.code
                raise error from failure
            except BaseException:
                code = "UNKNOWN"
                raise
            finally:
                told.end(span, code, time.monotonic() - began)

        return call

    def _stream(self, path: str, inner: Any) -> Any:
        policy, peer, told = self._policies[path], self._peer, MethodTelemetry(path, SpanKind.CLIENT)

        def responses(request: Any) -> Iterator[Any]:
            span, began, code = told.begin(), time.monotonic(), "OK"
            call = inner(request, timeout=_seconds(policy), metadata=_metadata(span, self._metadata))
            try:
                yield from call
            except grpc.RpcError as failure:
                error = _error(failure, peer)
                code = error.code
                raise error from failure
            except GeneratorExit:
                code = "CANCELLED"  # the caller has seen enough
                raise
            except BaseException:
                code = "UNKNOWN"
                raise
            finally:
                call.cancel()
                told.end(span, code, time.monotonic() - began)

        return responses

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        """Hear of changes of the connection's state."""
        self._connection.subscribe(callback, bool(try_to_connect))

    def unsubscribe(self, callback: Any) -> None:
        """Hear no more of them."""
        self._connection.unsubscribe(callback)

    def close(self) -> None:
        """Close the connection; calls in progress are cancelled."""
        self._connection.close()

    def __enter__(self) -> BlockingChannel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _metadata(span: Span, own: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return ((CORRELATION_ID_KEY, correlation_id()), *metadata_for(span), *own)


def _seconds(policy: MethodPolicy) -> float | None:
    return deadlines.budget(policy.timeout_seconds)


def _error(failure: grpc.RpcError, peer: str) -> HanseiError:
    # What a blocking call raises answers the same questions as an AioRpcError: code, details, trailers.
    return status.decode(cast(grpc.aio.AioRpcError, failure), peer)
