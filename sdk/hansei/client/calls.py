"""Declarations of the methods of a service, shared by the blocking and the async client.

``get = unary(GetPlaybookRequest, GetPlaybookResponse)`` in a `ServiceClient` declares a method that takes the fields of
the request as typed keyword arguments. In the blocking client it returns the response, in the async client an awaitable
of the response. Only the channel of the service differs between the two.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from contextlib import contextmanager
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast, overload

from google.protobuf.message import Message

from chassis.idempotency import find_key_holder

P = ParamSpec("P")
Req = TypeVar("Req", bound=Message)
Resp = TypeVar("Resp", bound=Message)
M = TypeVar("M")
BlockingCall = TypeVar("BlockingCall")
AsyncCall = TypeVar("AsyncCall")


class BlockingMode:
    """Mark services whose methods return responses."""


class AsyncMode:
    """Mark services whose methods return awaitables and async iterators."""


class ServiceClient(Generic[M]):
    """The methods of one gRPC service on one channel."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel


class RpcMethod(Generic[BlockingCall, AsyncCall]):
    """A declared method. On first use it stores the function to call in its instance, which is used from then on."""

    def __init__(self, arity: str, request: Callable[..., Message], response: type[Message]) -> None:
        self.arity = arity
        """The kind of streaming, as gRPC channels name it: `unary_unary`, `unary_stream`, …"""
        self.request = cast(type[Message], request)
        self.response = response

    @property
    def path(self) -> str:
        """Return the full name, `hansei.search.v1.SearchService/Search`."""
        rpc = self.request.DESCRIPTOR.name.removesuffix("Request")
        services = self.request.DESCRIPTOR.file.services_by_name.values()
        (owner,) = (service.full_name for service in services if rpc in service.methods_by_name)
        return f"{owner}/{rpc}"

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, service: None, owner: type) -> Self: ...
    @overload
    def __get__(self, service: ServiceClient[BlockingMode], owner: type) -> BlockingCall: ...
    @overload
    def __get__(self, service: ServiceClient[AsyncMode], owner: type) -> AsyncCall: ...
    def __get__(self, service: Any, owner: type) -> Any:
        """Return the method of an instance as a function of its arguments."""
        if service is None:
            return self
        send = getattr(service._channel, self.arity)(
            f"/{self.path}",
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.response.FromString,
            _registered_method=True,
        )
        function = (
            _build_stream_sender(send) if self.arity.startswith("stream") else _build_field_sender(send, self.request)
        )
        function.__name__ = self._name
        function.__doc__ = f"Call {self.path}; its request is {self.request.DESCRIPTOR.full_name}."
        service.__dict__[self._name] = function
        return function


def bind_unary(
    request: Callable[P, Message], response: type[Resp]
) -> RpcMethod[Callable[P, Resp], Callable[P, Awaitable[Resp]]]:
    """Declare a method with one request and one response."""
    return RpcMethod("unary_unary", request, response)


def bind_server_stream(
    request: Callable[P, Message], response: type[Resp]
) -> RpcMethod[Callable[P, Iterator[Resp]], Callable[P, AsyncIterator[Resp]]]:
    """Declare a method with one request and a stream of responses; leaving the loop early cancels the call."""
    return RpcMethod("unary_stream", request, response)


def bind_client_stream(
    request: type[Req], response: type[Resp]
) -> RpcMethod[Callable[[Iterable[Req]], Resp], Callable[[Iterable[Req] | AsyncIterable[Req]], Awaitable[Resp]]]:
    """Declare a method with a stream of requests and one response."""
    return RpcMethod("stream_unary", request, response)


def bind_two_streams(
    request: type[Req], response: type[Resp]
) -> RpcMethod[
    Callable[[Iterable[Req]], Iterator[Resp]], Callable[[Iterable[Req] | AsyncIterable[Req]], AsyncIterator[Resp]]
]:
    """Declare a method with streams in both directions; leaving the loop early cancels the call."""
    return RpcMethod("stream_stream", request, response)


def _build_field_sender(send: Callable[[Any], Any], request: type[Message]) -> Callable[..., Any]:
    def send_fields(**fields: Any) -> Any:
        return send(add_request_id(build_message(request, **fields)))

    return send_fields


def build_message(message_type: type[Req], **fields: Any) -> Req:
    """Return a message with these fields. Raises InvalidArgument, which names the first field with a wrong value."""
    try:
        return message_type(**fields)
    except (TypeError, ValueError) as error:
        from hansei.client.field_faults import build_field_error  # few processes meet it

        raise build_field_error(message_type, fields, error) from error


def _build_stream_sender(send: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def send_stream(requests: Any) -> Any:
        stream = _RequestStream(requests)
        with stream.raise_own_failure():
            result = send(stream.aiterate() if isinstance(requests, AsyncIterable) else stream.iterate())
        if isinstance(result, Awaitable):
            return _await_response(result, stream)
        if isinstance(result, AsyncGenerator):
            return _aiterate_responses(result, stream)
        return _iterate_responses(result, stream) if isinstance(result, Iterator) else result

    return send_stream


class _RequestStream:
    """The requests of a call. gRPC cancels the call if they raise an error, and keeps the error for itself."""

    def __init__(self, requests: Any) -> None:
        self._requests = requests
        self._failure: Exception | None = None

    def iterate(self) -> Iterator[Message]:
        try:
            for request in self._requests:
                yield add_request_id(request)
        except Exception as error:
            self._failure = error
            raise

    async def aiterate(self) -> AsyncIterator[Message]:
        try:
            async for request in self._requests:
                yield add_request_id(request)
        except Exception as error:
            self._failure = error
            raise

    @contextmanager
    def raise_own_failure(self) -> Iterator[None]:
        """Raise the error of the requests in place of the error of the call that they ended."""
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            if self._failure is None:
                raise
            raise self._failure from error


async def _await_response(response: Awaitable[Any], stream: _RequestStream) -> Any:
    with stream.raise_own_failure():
        return await response


def _iterate_responses(responses: Iterator[Any], stream: _RequestStream) -> Iterator[Any]:
    with stream.raise_own_failure():
        yield from responses


async def _aiterate_responses(responses: AsyncGenerator[Any], stream: _RequestStream) -> AsyncIterator[Any]:
    with stream.raise_own_failure():
        try:
            async for response in responses:
                yield response
        finally:
            await responses.aclose()  # leaving the loop early cancels the call


def add_request_id(message: Req) -> Req:
    """Set a new `request_id` if the type of the message has one and the caller left it empty; return the message.

    This happens before the first try, so all tries of one call share the id and take effect once.
    """
    holder = find_key_holder(message)
    if holder is not None and not holder.request_id:
        holder.request_id = str(uuid.uuid4())
    return message
