"""The methods of the contract as functions, whether this process or a service behind the gateway serves them."""

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
from gateway.contract import Contract, get_kind, get_path


class ContractMethods:
    """Functions that take requests as messages and return serialized responses.

    `own` has the servicers of this process by the full names of their services. They are called directly, without a
    connection to the own process.
    """

    def __init__(
        self, channel_of: Callable[[str], grpc.aio.Channel], contract: Contract, own: Mapping[str, object]
    ) -> None:
        self._channel_of = channel_of
        self._contract = contract
        self._own = own

    def get_function(self, method: MethodDescriptor) -> Callable[[Any], Any]:
        """Return the function of a method; it returns an awaitable, or an async iterator for a stream of responses.

        If the method takes a stream of requests, the function takes an async iterator.
        """
        servicer = self._own.get(method.containing_service.full_name)
        if servicer is not None:
            behaviour = getattr(servicer, method.name)
            return _call_stream(behaviour) if method.server_streaming else _call_with_deadline(behaviour)
        channel = self._channel_of(self._contract.get_server(method))
        serialize = GetMessageClass(method.input_type).SerializeToString
        call: Callable[[Any], Any] = getattr(channel, get_kind(method))(get_path(method), request_serializer=serialize)
        return call


def _call_with_deadline(behaviour: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[bytes]]:
    """Return a function that ends the call at its deadline, as a server does."""

    async def call_unary(request: Any) -> bytes:
        try:
            async with asyncio.timeout(deadlines.get_remaining()) as limit:
                return _serialize(await behaviour(request, None))
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DeadlineExceeded("the deadline of this request has passed") from error

    return call_unary


def _call_stream(behaviour: Callable[[Any, Any], AsyncIterator[Any]]) -> Callable[[Any], AsyncIterator[bytes]]:
    async def call_stream(request: Any) -> AsyncIterator[bytes]:
        async with aclosing(behaviour(request, None)) as responses:  # type: ignore[type-var]
            async for response in responses:
                yield _serialize(response)

    return call_stream


def _serialize(response: Message | bytes) -> bytes:
    """Return the serialized response; a servicer may return it already serialized."""
    return response if isinstance(response, bytes) else response.SerializeToString()
