"""Any method of the contract as a function, wherever it is served: by the gateway itself or by a service behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from chassis import deadlines
from chassis.errors import DeadlineExceeded
from gateway.contract import Contract, kind_of, path_of


class ContractMethods:
    """Functions that take requests as messages and answer with the bytes of responses.

    `own` holds the servicers of this process by the full names of their services: they are called as they are, so a
    caller of HTTP meets the very code that a caller of gRPC does, and no message goes over a wire to come back.
    """

    def __init__(
        self, channel_of: Callable[[str], grpc.aio.Channel], contract: Contract, own: Mapping[str, object]
    ) -> None:
        self._channel_of = channel_of
        self._contract = contract
        self._own = own

    def function(self, method: MethodDescriptor) -> Callable[[Any], Any]:
        """Return the function behind a method: its result is awaited, or iterated over if the method streams.

        Where the method takes a stream of requests, the function takes their iterator.
        """
        servicer = self._own.get(method.containing_service.full_name)
        if servicer is not None:
            behaviour = getattr(servicer, method.name)
            return _streaming(behaviour) if method.server_streaming else _within_deadline(behaviour)
        channel = self._channel_of(self._contract.server_of(method))
        serialize = GetMessageClass(method.input_type).SerializeToString
        call: Callable[[Any], Any] = getattr(channel, kind_of(method))(path_of(method), request_serializer=serialize)
        return call


def _within_deadline(behaviour: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[bytes]]:
    """Do what a server does for a call: end it when its time is over."""

    async def call(request: Any) -> bytes:
        try:
            async with asyncio.timeout(deadlines.remaining()) as limit:
                return _serialized(await behaviour(request, None))
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DeadlineExceeded("the time for this request is over") from error

    return call


def _streaming(behaviour: Callable[[Any, Any], AsyncIterator[Any]]) -> Callable[[Any], AsyncIterator[bytes]]:
    async def call(request: Any) -> AsyncIterator[bytes]:
        async with aclosing(behaviour(request, None)) as responses:  # type: ignore[type-var]
            async for response in responses:
                yield _serialized(response)

    return call


def _serialized(response: Message | bytes) -> bytes:
    """Return the bytes of a response; a servicer may answer with bytes, as for a server."""
    return response if isinstance(response, bytes) else response.SerializeToString()
