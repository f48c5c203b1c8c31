"""The services behind the gateway, served on its port under their own names (G-66, docs/adr/001).

The gateway forwards serialized messages without parsing them; the service validates each message once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from chassis.server.service import Registration
from gateway.contract import Contract, get_kind, get_path

ChannelOf = Callable[[str], grpc.aio.Channel]


def build_registrations(channel_of: ChannelOf, contract: Contract) -> list[Registration]:
    """Return a registration for each service behind the gateway. Methods without a timeout are endless."""
    return [
        Registration(
            add=_register_handlers,
            servicer=Passthrough(peer, service, channel_of),
            endless=[method.name for method in service.methods if contract.get_policy(method).timeout_seconds is None],
        )
        for peer in contract.peers
        for service in contract.services[peer]
    ]


def _register_handlers(passthrough: Passthrough, server: Any) -> None:
    service = passthrough.service
    handlers = {method.name: passthrough.handler(method) for method in service.methods}
    server.add_registered_method_handlers(service.full_name, handlers)


@dataclass(frozen=True, slots=True)
class Passthrough:
    """Forwards the calls of a service to the peer that serves it."""

    peer: str
    service: ServiceDescriptor
    channel_of: ChannelOf

    def handler(self, method: MethodDescriptor) -> Any:
        """Return the handler of a method; requests and responses are bytes."""
        kind = get_kind(method)

        @cache
        def bind() -> Any:
            return getattr(self.channel_of(self.peer), kind)(get_path(method))

        def start_call(request: Any) -> Any:
            return bind()(request)

        async def forward_unary(request: Any, context: Any) -> bytes:
            response: bytes = await start_call(request)
            return response

        async def forward_stream(request: Any, context: Any) -> AsyncIterator[bytes]:
            async for response in start_call(request):
                yield response

        return getattr(grpc, f"{kind}_rpc_method_handler")(forward_stream if method.server_streaming else forward_unary)
