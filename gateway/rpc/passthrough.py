"""The services behind the gateway, served on its port under their own names (G-66).

Frames are handed on as they are: the gateway neither parses them nor knows the methods, so a method that is added to
a service is served here at once. What the service's own interceptors refuse is refused there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc

ChannelOf = Callable[[str], grpc.aio.Channel]


class Passthrough(grpc.GenericRpcHandler):
    """Handles every method of the given services by calling the peer that serves it."""

    def __init__(self, peer_of_service: Mapping[str, str], channel_of: ChannelOf) -> None:
        """`peer_of_service`: full service name to peer name; `channel_of`: peer name to its channel."""
        self._peer_of_service = dict(peer_of_service)
        self._channel_of = channel_of

    def service(self, handler_call_details: Any) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """The handler of a method, None for services that are not behind the gateway."""
        method = handler_call_details.method
        peer = self._peer_of_service.get(method.removeprefix("/").partition("/")[0])
        if peer is None:
            return None

        async def forward(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            call = self._channel_of(peer).stream_stream(method)(requests)
            async for frame in call:
                yield frame

        return grpc.stream_stream_rpc_method_handler(forward)
