"""Puts the gateway together."""

from __future__ import annotations

from chassis.channels import Peers
from chassis.policy import installed_policies
from chassis.service import Registration, Service
from gateway.adapters.peers import CuratorPeer, GeneratorPeer, ReflectorPeer, SearchPeer
from gateway.orchestrator.learn import Learning
from gateway.orchestrator.workflow import ReflectionWorkflow
from gateway.rpc import passthrough
from gateway.rpc.servicer import GatewayServicer
from gateway.settings import GatewaySettings
from hansei.gateway.v1 import gateway_service_pb2_grpc


def build(settings: GatewaySettings, peers: Peers) -> Service:
    """The gateway as it stands alone: its own service, and those behind it passed through."""
    behind = passthrough.registrations(peers.channel, installed_policies())
    return Service(name="gateway", registrations=[*chains(peers), *behind])


def chains(peers: Peers) -> list[Registration]:
    """The gateway's own service. In one process with the others nothing needs to be passed through."""
    curator = CuratorPeer(peers.channel("curator"))
    learning = Learning(curator=curator, reflector=ReflectorPeer(peers.channel("reflector")))
    workflow = ReflectionWorkflow(
        playbooks=curator, search=SearchPeer(peers.channel("search")), generator=GeneratorPeer(peers.channel("planner"))
    )
    add = gateway_service_pb2_grpc.add_GatewayServiceServicer_to_server
    return [Registration(add, GatewayServicer(learning, workflow))]
