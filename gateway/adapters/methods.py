"""Any method of the contracts as a function, wherever it is served: by the gateway itself or by a service behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from chassis import deadlines
from chassis.errors import DeadlineExceeded
from gateway.rpc.passthrough import BEHIND, kind_of, path_of, services_of

PEER_OF: Mapping[str, str] = {service.full_name: peer for peer in BEHIND for service in services_of(peer)}
"""Full name of a service to the peer that serves it."""


class ContractMethods:
    """`of(method)` takes a request; what it returns is awaited, or iterated over if the method streams.

    `own` holds the servicers of this process by the full names of their services: they are called as they are, so a
    caller of HTTP meets the very code that a caller of gRPC does, and no message goes over a wire to come back.
    """

    def __init__(self, channel_of: Callable[[str], grpc.aio.Channel], own: Mapping[str, object]) -> None:
        self._channel_of = channel_of
        self._own = own

    def of(self, method: MethodDescriptor) -> Callable[[Any], Any]:
        """The function behind a method; where it takes a stream of requests, of their iterator."""
        service = method.containing_service.full_name
        if service in self._own:
            behaviour = getattr(self._own[service], method.name)
            if method.server_streaming:
                return lambda request: behaviour(request, None)
            return _in_time(behaviour, GetMessageClass(method.output_type))
        channel = self._channel_of(PEER_OF[service])
        call: Callable[[Any], Any] = getattr(channel, kind_of(method))(
            path_of(method),
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        return call


def _in_time(
    behaviour: Callable[[Any, Any], Awaitable[Any]], kind: type[Message]
) -> Callable[[Any], Awaitable[Message]]:
    """What a server does for a call: its time over, it ends. A behaviour may answer with bytes, as for a server."""

    async def call(request: Any) -> Message:
        try:
            async with asyncio.timeout(deadlines.remaining()) as limit:
                answer: Message | bytes = await behaviour(request, None)
                return kind.FromString(answer) if isinstance(answer, bytes) else answer
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DeadlineExceeded("the time for this request is over") from error

    return call
