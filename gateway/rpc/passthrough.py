"""The services behind the gateway, served on its port under their own names (G-66, docs/adr/001).

Messages are handed on as the bytes they are: the gateway does not parse them, so each is checked once, by the service
it is for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from chassis.policy import Policies
from chassis.service import Registration
from hansei.curator.v1 import curator_service_pb2
from hansei.planner.v1 import generator_service_pb2, planner_service_pb2
from hansei.playbook.v1 import playbook_service_pb2
from hansei.reflector.v1 import reflector_service_pb2
from hansei.search.v1 import collection_service_pb2, search_service_pb2
from hansei.validator.v1 import evaluator_service_pb2, leaderboard_service_pb2, validator_service_pb2

ChannelOf = Callable[[str], grpc.aio.Channel]

BEHIND: Mapping[str, Sequence[Any]] = {
    "curator": (curator_service_pb2, playbook_service_pb2),
    "reflector": (reflector_service_pb2,),
    "search": (collection_service_pb2, search_service_pb2),
    "planner": (generator_service_pb2, planner_service_pb2),
    "validator": (evaluator_service_pb2, leaderboard_service_pb2, validator_service_pb2),
}
"""Peer to the contracts it serves."""


def services_of(peer: str) -> list[ServiceDescriptor]:
    """The gRPC services that a peer serves."""
    return [service for module in BEHIND[peer] for service in module.DESCRIPTOR.services_by_name.values()]


def registrations(channel_of: ChannelOf, policies: Policies) -> list[Registration]:
    """One for each service behind the gateway. A method without a timeout never ends by itself."""
    return [
        Registration(
            add=_add,
            servicer=Passthrough(peer, service, channel_of),
            endless=[method.name for method in service.methods if policies[path_of(method)].timeout_seconds is None],
        )
        for peer in BEHIND
        for service in services_of(peer)
    ]


def path_of(method: MethodDescriptor) -> str:
    """`/hansei.search.v1.SearchService/Search`."""
    return f"/{method.containing_service.full_name}/{method.name}"


def kind_of(method: MethodDescriptor) -> str:
    """What grpc calls its kind: `unary_stream` takes one request and answers with a stream."""
    kinds = {False: "unary", True: "stream"}
    return f"{kinds[method.client_streaming]}_{kinds[method.server_streaming]}"


def _add(passthrough: Passthrough, server: Any) -> None:
    service = passthrough.service
    handlers = {method.name: passthrough.handler(method) for method in service.methods}
    server.add_registered_method_handlers(service.full_name, handlers)


@dataclass(frozen=True, slots=True)
class Passthrough:
    """Calls the peer that serves a service for every call of its methods."""

    peer: str
    service: ServiceDescriptor
    channel_of: ChannelOf

    def handler(self, method: MethodDescriptor) -> Any:
        """The handler of one method; requests and responses are bytes."""
        kind = kind_of(method)

        def call(request: Any) -> Any:
            return getattr(self.channel_of(self.peer), kind)(path_of(method))(request)

        async def one(request: Any, context: Any) -> bytes:
            response: bytes = await call(request)
            return response

        async def many(request: Any, context: Any) -> AsyncIterator[bytes]:
            async for response in call(request):
                yield response

        return getattr(grpc, f"{kind}_rpc_method_handler")(many if method.server_streaming else one)
