"""Puts the gateway together."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from chassis.admission import Admission
from chassis.channels import Peers
from chassis.policy import installed_policies
from chassis.service import Registration, Service
from chassis.settings import BadSetting
from gateway.adapters.peers import (
    CuratorPeer,
    EvaluatorPeer,
    GeneratorPeer,
    LeaderboardPeer,
    ReflectorPeer,
    SearchPeer,
    ValidatorPeer,
)
from gateway.http.app import create_app
from gateway.http.face import Face
from gateway.http.server import HttpServer
from gateway.orchestrator.learn import Learning
from gateway.orchestrator.rounds import Rounds
from gateway.orchestrator.rounds_team import Equipment
from gateway.orchestrator.workflow import ReflectionWorkflow
from gateway.rpc import passthrough
from gateway.rpc.rounds import RoundsServicer
from gateway.rpc.servicer import GatewayServicer
from gateway.settings import HTTP_ADDRESS_VARIABLE, GatewaySettings
from hansei.gateway.v1 import gateway_service_pb2_grpc, rounds_service_pb2_grpc
from libs.prompts.builder import UserPromptBuilder
from libs.prompts.settings import PromptBuilderSettings, get_prompt_builder_settings


def build(settings: GatewaySettings, peers: Peers) -> Service:
    """The gateway as it stands alone: its own services, and those behind it passed through. Raises BadSetting."""
    return front(settings, peers, passthrough.registrations(peers.channel, installed_policies()))


def front(settings: GatewaySettings, peers: Peers, behind: Sequence[Registration] = ()) -> Service:
    """The gateway's own services over gRPC and HTTP, and those that are passed through. Raises BadSetting.

    In one process with the others nothing needs to be passed through.
    """
    registrations = [*chains(peers, prompts_of(settings)), *behind]
    if not settings.http_address:
        return Service(name="gateway", registrations=registrations)
    http = _http(settings, peers)
    return Service(
        name="gateway",
        registrations=registrations,
        start=http.start,
        close=http.close,
        tasks={"http": http.watch},
    )


def chains(peers: Peers, prompts: UserPromptBuilder | None = None) -> list[Registration]:
    """The gateway's own services; without `prompts`, rounds use those of the environment."""
    rounds = Rounds(
        Equipment(
            workflow=_workflow(peers),
            evaluator=EvaluatorPeer(peers.channel("validator")),
            leaderboard=LeaderboardPeer(peers.channel("validator")),
            prompts=prompts or UserPromptBuilder(PromptBuilderSettings()),
            now=lambda: datetime.now(UTC),
            new_id=lambda: str(uuid.uuid4()),
            limit=asyncio.timeout,
        )
    )
    return [
        Registration(
            gateway_service_pb2_grpc.add_GatewayServiceServicer_to_server,
            GatewayServicer(_learning(peers), _workflow(peers)),
        ),
        Registration(rounds_service_pb2_grpc.add_RoundsServiceServicer_to_server, RoundsServicer(rounds)),
    ]


def _learning(peers: Peers) -> Learning:
    return Learning(curator=CuratorPeer(peers.channel("curator")), reflector=ReflectorPeer(peers.channel("reflector")))


def _workflow(peers: Peers) -> ReflectionWorkflow:
    return ReflectionWorkflow(
        playbooks=CuratorPeer(peers.channel("curator")),
        search=SearchPeer(peers.channel("search")),
        generator=GeneratorPeer(peers.channel("planner")),
    )


def _http(settings: GatewaySettings, peers: Peers) -> HttpServer:
    face = Face(
        learning=_learning(peers),
        workflow=_workflow(peers),
        search=SearchPeer(peers.channel("search")),
        playbooks=CuratorPeer(peers.channel("curator")),
        reports=ValidatorPeer(peers.channel("validator")),
    )
    app = create_app(
        face,
        installed_policies(),
        admission=Admission("HTTP requests", settings.max_concurrent_calls, settings.overload_retry_seconds),
        token=settings.gateway_api_token.get_secret_value(),
        max_body_bytes=settings.max_message_bytes,
    )
    return HttpServer(app, settings.http_address, settings.drain_grace_seconds, variable=HTTP_ADDRESS_VARIABLE)


def prompts_of(settings: GatewaySettings) -> UserPromptBuilder:
    """The prompts of teams and judges: the workspace's, else those of the environment. Raises BadSetting."""
    try:
        if settings.workspace:
            return UserPromptBuilder(get_prompt_builder_settings(workspace=settings.workspace))
        return UserPromptBuilder(PromptBuilderSettings())
    except ValueError as error:
        raise BadSetting(f"the prompt templates cannot be used: {error}") from error
