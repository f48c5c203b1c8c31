"""How the methods of a service are declared: once, for the blocking and the async client alike.

``get = Unary(GetPlaybookRequest, GetPlaybookResponse)`` in a `Service` declares a method that takes the fields of the
request as typed keyword arguments. In a client that blocks it returns the response, in an async one an awaitable of it.
What differs between the two is only the channel the service stands on.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, ClassVar, Generic, ParamSpec, Self, TypeVar, cast, overload

from google.protobuf.message import Message

from chassis.idempotency import key_holder

P = ParamSpec("P")
Req = TypeVar("Req", bound=Message)
Resp = TypeVar("Resp", bound=Message)
M = TypeVar("M")


class Blocking:
    """Marks services whose methods return responses."""


class Awaited:
    """Marks services whose methods return awaitables and async iterators."""


class Service(Generic[M]):
    """The methods of one gRPC service on one channel."""

    STUB: ClassVar[type[Any]]
    """The generated stub."""

    def __init__(self, channel: Any) -> None:
        self._stub = self.STUB(channel)


class _Method:
    """A declared method. It binds itself to an instance on first use, and is not asked again."""

    def __init__(self, request: Callable[..., Message], response: type[Message]) -> None:
        self.request = cast(type[Message], request)
        self.response = response
        self.rpc = self.request.DESCRIPTOR.name.removesuffix("Request")

    @property
    def path(self) -> str:
        """Full name, `hansei.search.v1.SearchService/Search`. The requests of a service stand in its file."""
        services = self.request.DESCRIPTOR.file.services_by_name.values()
        (owner,) = (service.full_name for service in services if self.rpc in service.methods_by_name)
        return f"{owner}/{self.rpc}"

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def bound(self, service: Any) -> Callable[..., Any]:
        """The method as a function of its arguments, kept in the instance."""
        function = self._function(getattr(service._stub, self.rpc))
        service.__dict__[self._name] = function
        return function

    def _function(self, send: Callable[..., Any]) -> Callable[..., Any]:
        request = self.request

        def call(**fields: Any) -> Any:
            return send(with_key(request(**fields)))

        call.__name__ = self._name
        call.__doc__ = f"{self.rpc}: the keyword arguments are the fields of {self.request.DESCRIPTOR.full_name}."
        return call


def declared(service: type[Service[Any]]) -> dict[str, _Method]:
    """The methods that a service declares, by name."""
    return {name: value for name, value in vars(service).items() if isinstance(value, _Method)}


class Unary(_Method, Generic[P, Resp]):
    """One request, one response."""

    def __init__(self, request: Callable[P, Message], response: type[Resp]) -> None:
        super().__init__(request, response)

    @overload
    def __get__(self, service: None, owner: type) -> Self: ...
    @overload
    def __get__(self, service: Service[Blocking], owner: type) -> Callable[P, Resp]: ...
    @overload
    def __get__(self, service: Service[Awaited], owner: type) -> Callable[P, Awaitable[Resp]]: ...
    def __get__(self, service: Any, owner: type) -> Any:
        """The method of an instance."""
        return self if service is None else self.bound(service)


class ServerStream(_Method, Generic[P, Resp]):
    """One request, a stream of responses; leaving the loop early cancels the call."""

    def __init__(self, request: Callable[P, Message], response: type[Resp]) -> None:
        super().__init__(request, response)

    @overload
    def __get__(self, service: None, owner: type) -> Self: ...
    @overload
    def __get__(self, service: Service[Blocking], owner: type) -> Callable[P, Iterator[Resp]]: ...
    @overload
    def __get__(self, service: Service[Awaited], owner: type) -> Callable[P, AsyncIterator[Resp]]: ...
    def __get__(self, service: Any, owner: type) -> Any:
        """The method of an instance."""
        return self if service is None else self.bound(service)


class _RequestStream(_Method, Generic[Req, Resp]):
    """A stream of requests."""

    def __init__(self, request: type[Req], response: type[Resp]) -> None:
        super().__init__(request, response)

    def _function(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def call(requests: Any) -> Any:
            if isinstance(requests, AsyncIterable):
                return send(_each_async(requests))
            return send(with_key(request) for request in requests)

        call.__name__ = self._name
        call.__doc__ = f"{self.rpc}: takes a stream of {self.request.DESCRIPTOR.full_name}."
        return call


class ClientStream(_RequestStream[Req, Resp]):
    """A stream of requests, one response."""

    @overload
    def __get__(self, service: None, owner: type) -> Self: ...
    @overload
    def __get__(self, service: Service[Blocking], owner: type) -> Callable[[Iterable[Req]], Resp]: ...
    @overload
    def __get__(
        self, service: Service[Awaited], owner: type
    ) -> Callable[[Iterable[Req] | AsyncIterable[Req]], Awaitable[Resp]]: ...
    def __get__(self, service: Any, owner: type) -> Any:
        """The method of an instance."""
        return self if service is None else self.bound(service)


class BothStreams(_RequestStream[Req, Resp]):
    """A stream of requests, and a stream of responses meanwhile; leaving the loop early cancels the call."""

    @overload
    def __get__(self, service: None, owner: type) -> Self: ...
    @overload
    def __get__(self, service: Service[Blocking], owner: type) -> Callable[[Iterable[Req]], Iterator[Resp]]: ...
    @overload
    def __get__(
        self, service: Service[Awaited], owner: type
    ) -> Callable[[Iterable[Req] | AsyncIterable[Req]], AsyncIterator[Resp]]: ...
    def __get__(self, service: Any, owner: type) -> Any:
        """The method of an instance."""
        return self if service is None else self.bound(service)


async def _each_async(requests: AsyncIterable[Message]) -> AsyncIterator[Message]:
    async for request in requests:
        yield with_key(request)


def with_key(message: Req) -> Req:
    """Give a request a `request_id` if its type has one and the caller left it empty, and return it.

    This comes before the first try, so that all tries of one call share the key and take effect once.
    """
    holder = key_holder(message)
    if holder is not None and not holder.request_id:
        holder.request_id = str(uuid.uuid4())
    return message
