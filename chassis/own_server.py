"""Calls of a process to the server that it runs itself: through the edge of that server, but not through a connection.

Requests and responses are serialized and parsed as for a connection, so caller and handler never share a message. What
the caller sets (deadline, metadata, cancellation) reaches the handler, and its errors reach the caller, as over one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

import grpc

from chassis import status

Metadata = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class OwnServer:
    """The server of this process, for its own channels.

    `handlers` has its methods by path; the server adds them before it starts.
    `names` are those of its certificate.
    """

    address: str
    max_message_bytes: int = 0
    names: Sequence[str] = ()
    handlers: dict[str, Any] = field(default_factory=dict)


class OwnMethod:
    """A method of the own server. `connected` calls it over a connection; the last arguments are those of gRPC."""

    def __init__(
        self,
        server: OwnServer,
        path: str,
        connected: Callable[..., Any],
        is_retried: bool,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        **_options: Any,
    ) -> None:
        self._server = server
        self._path = path
        self._connected = connected
        self._serialize = request_serializer or _pass_through
        self._parse = response_deserializer or _pass_through
        self._is_retried = is_retried

    async def __call__(self, request: Any, *, timeout: float | None, metadata: Metadata) -> Any:  # noqa: ASYNC109
        """Return the response. Raises AioRpcError, as a call over a connection."""
        handler = self._server.handlers.get(self._path)
        content = self._serialize(request)
        # A connection refuses a message that is too large, and methods that nobody serves, with the error of gRPC.
        if handler is None or len(content) > self._server.max_message_bytes:
            return await self._connected(request, timeout=timeout, metadata=metadata)
        context = _OwnCallContext(metadata, timeout, self._server.names)
        try:
            response = await self._run(handler, content, context, timeout)
        except grpc.aio.AioRpcError as failure:
            if not self._is_retried or not status.allows_retry(failure):
                raise
            # The connection makes the retries of the policy.
            return await self._connected(request, timeout=context.time_remaining(), metadata=metadata)
        return self._parse(response)

    async def _run(self, handler: Any, content: bytes, context: _OwnCallContext, seconds: float | None) -> bytes:
        request = content if handler.request_deserializer is None else handler.request_deserializer(content)
        # An empty context, as a server gives its handlers: nothing of the caller but the metadata.
        task = asyncio.get_running_loop().create_task(handler.unary_unary(request, context), context=Context())
        try:
            async with asyncio.timeout(seconds) as limit:
                response = await task
        except TimeoutError:
            if limit.expired():
                raise _build_failure(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded") from None
            raise
        except grpc.aio.AbortError:
            raise _build_failure(context.code(), context.details(), context.trailers) from None
        except asyncio.CancelledError:
            if (caller := asyncio.current_task()) is not None and caller.cancelling():
                raise
            raise _build_failure(grpc.StatusCode.CANCELLED, "the handler was cancelled") from None
        serialized = response if handler.response_serializer is None else handler.response_serializer(response)
        if len(serialized) > self._server.max_message_bytes:
            problem = f"Sent message larger than max ({len(serialized)} vs. {self._server.max_message_bytes})"
            raise _build_failure(grpc.StatusCode.RESOURCE_EXHAUSTED, problem)
        return serialized  # type: ignore[no-any-return]


class _OwnCallContext:
    """The part of a gRPC context that the edge uses."""

    def __init__(self, metadata: Metadata, seconds: float | None, names: Sequence[str]) -> None:
        self._metadata = metadata
        self._expires_at = None if seconds is None else time.monotonic() + seconds
        self._names = names
        self._status = (grpc.StatusCode.OK, "")
        self.trailers: Sequence[tuple[str, str | bytes]] = ()

    def invocation_metadata(self) -> Metadata:
        """Return the metadata of the caller."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline of the caller, None without one."""
        return None if self._expires_at is None else max(0.0, self._expires_at - time.monotonic())

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        """Return the names of the caller's certificate, which is that of the server."""
        return {"x509_subject_alternative_name": [name.encode() for name in self._names]}

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Sequence[tuple[str, str | bytes]] = ()
    ) -> None:
        """End the call with a status. Raises AbortError."""
        self._status, self.trailers = (code, details), trailing_metadata
        raise grpc.aio.AbortError(details)

    def code(self) -> grpc.StatusCode:
        """Return the status of the call."""
        return self._status[0]

    def details(self) -> str:
        """Return the description of the status."""
        return self._status[1]


def _build_failure(
    code: grpc.StatusCode, details: str, trailers: Sequence[tuple[str, str | bytes]] = ()
) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), details, None)


def _pass_through(content: Any) -> Any:
    return content
