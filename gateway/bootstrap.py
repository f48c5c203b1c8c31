"""Composition of the gateway."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from chassis.channels import Peers
from chassis.guard import AllowAll
from chassis.server.admission import Admission
from chassis.server.progress import CallsInProgress
from chassis.server.server import collect_handlers
from chassis.server.service import Registration, Service
from chassis.tls import Certificates, require_plaintext_allowed
from gateway.access.adapters.sql import schema as access_schema
from gateway.access.bootstrap import Access, build_access
from gateway.access.rpc.guard import current_principal
from gateway.access.rpc.named_resources import ResourceKind
from gateway.adapters.health import list_health
from gateway.adapters.methods import ContractMethods
from gateway.bulk.adapters.sql import schema as bulk_schema
from gateway.bulk.bootstrap import build_bulk
from gateway.contract import load_contract
from gateway.orchestrator.learn import Learning
from gateway.orchestrator.ports import TrajectoryArchive
from gateway.orchestrator.rounds import Rounds
from gateway.orchestrator.workflow import ReflectionWorkflow
from gateway.otlp.adapters.sql import schema as otlp_schema
from gateway.otlp.bootstrap import build_otlp
from gateway.otlp.rpc.servicer import OTLP_METHODS, OtlpServicer, create_registrations
from gateway.otlp.usecases.receive_exports import ExportReceiver
from gateway.outbox.adapters.sql import schema as outbox_schema
from gateway.outbox.bootstrap import build_outbox
from gateway.rpc import passthrough
from gateway.rpc.rounds import RoundsServicer
from gateway.rpc.servicer import GatewayServicer
from gateway.settings import HTTP_ADDRESS_VARIABLE, GatewaySettings
from hansei.curator.v1.curator_service_pb2_grpc import CuratorServiceStub
from hansei.evidence.v1.archive_service_pb2_grpc import ArchiveServiceStub
from hansei.evidence.v1.evidence_service_pb2_grpc import EvidenceServiceStub
from hansei.gateway.v1 import (
    access_service_pb2_grpc,
    bulk_service_pb2_grpc,
    gateway_service_pb2_grpc,
    rounds_service_pb2_grpc,
)
from hansei.planner.v1.generator_service_pb2_grpc import GeneratorServiceStub
from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceStub
from hansei.reflector.v1.reflector_service_pb2_grpc import ReflectorServiceStub
from hansei.search.v1.search_service_pb2_grpc import SearchServiceStub
from hansei.validator.v1.evaluator_service_pb2_grpc import EvaluatorServiceStub
from hansei.validator.v1.leaderboard_service_pb2_grpc import LeaderboardServiceStub
from libs.prompts.builder import UserPromptBuilder
from libs.prompts.settings import load_prompt_builder_settings
from libs.storage.database import Database
from libs.storage.startup import report_setting, wait_until_open

if TYPE_CHECKING:
    from gateway.http.server import HttpServer

DATABASE_VARIABLE = "HANSEI_GATEWAY_DATABASE_URL"
STATEMENT_SECONDS = 30.0


def build(settings: GatewaySettings, peers: Peers) -> Service:
    """Return the gateway of a process of its own, with pass-through to the services behind it. Raises BadSetting."""
    return create_front(settings, peers, passthrough.build_registrations(peers.get_channel, load_contract()))


def create_front(
    settings: GatewaySettings,
    peers: Peers,
    pass_through: Sequence[Registration] = (),
    local_services: Sequence[Service] = (),
) -> Service:
    """Return the gateway with its own services over gRPC and HTTP, with the registrations of `pass_through`.

    HTTP calls the servicers of `local_services`, which run in the same process. Raises BadSetting.
    """
    database = _create_database(settings.gateway_database_url)
    archive = ArchiveServiceStub(peers.get_channel("evidence"))
    outbox = build_outbox(settings, database, settings.bulk_executor, archive, settings.max_message_bytes)
    learning = _create_learning(peers, outbox if settings.archive_trajectories else None)
    bulk = build_bulk(settings, database, learning)
    served = {"HANSEI_LISTEN_ADDRESS": settings.listen_address, HTTP_ADDRESS_VARIABLE: settings.http_address}
    access = build_access(settings, database, load_contract(), served, other_methods=OTLP_METHODS)
    own = [
        *_register_chains(peers, create_prompts(settings), learning),
        Registration(bulk_service_pb2_grpc.add_BulkServiceServicer_to_server, bulk.servicer),
        Registration(access_service_pb2_grpc.add_AccessServiceServicer_to_server, access.servicer),
    ]
    otlp = build_otlp(
        settings,
        database,
        caller=current_principal.get,
        reader=ReflectorServiceStub(peers.get_channel("reflector")),
        outcomes=EvidenceServiceStub(peers.get_channel("evidence")),
        submit=bulk.learning.submit,
        add_owner=partial(access.repository.add_owner, ResourceKind.JOB.value),
    )
    local = [*own, *(registration for service in local_services for registration in service.registrations)]
    http = _create_http(settings, peers, local, access, otlp.receiver) if settings.http_address else None
    closing = AsyncExitStack()

    async def open_database() -> None:
        await database.open()
        await outbox.count_waiting_bytes()

    async def start() -> None:
        closing.push_async_callback(database.close)
        await wait_until_open(open_database, database.url, DATABASE_VARIABLE, settings.database_wait_seconds)
        closing.push_async_callback(access.synchronization.try_once)
        closing.push_async_callback(bulk.learning.close)
        if http is not None:
            closing.push_async_callback(http.close)
            await http.start()

    async def drain() -> None:
        await bulk.learning.drain()
        await outbox.drain()

    return Service(
        name="gateway",
        registrations=[*own, *create_registrations(OtlpServicer(otlp.receiver)), *pass_through],
        start=start,
        drain=drain,
        close=closing.aclose,
        guard=access.guard or AllowAll(),
        http_url=lambda: http.url if http is not None else "",
        tasks={
            "access": access.synchronization.run,
            "bulk": bulk.learning.run_maintenance,
            "outbox": outbox.run,
            "otlp": otlp.learning.run,
            **({} if http is None else {"http": http.watch}),
        },
    )


def _create_database(location: str) -> Database:
    """Return the database of all stores of the gateway, which commits their writes together. Raises BadSetting."""
    with report_setting(DATABASE_VARIABLE):
        return Database(
            location,
            access_schema.MIGRATIONS,
            outbox_schema.MIGRATIONS,
            bulk_schema.MIGRATIONS,
            otlp_schema.MIGRATIONS,
            service="gateway",
            store="gateway store",
            statement_seconds=STATEMENT_SECONDS,
        )


def _register_chains(peers: Peers, prompts: UserPromptBuilder, learning: Learning) -> list[Registration]:
    workflow = _create_workflow(peers)
    rounds = Rounds(
        workflow=workflow,
        evaluator=EvaluatorServiceStub(peers.get_channel("validator")),
        leaderboard=LeaderboardServiceStub(peers.get_channel("validator")),
        prompts=prompts,
        now=lambda: datetime.now(UTC),
        new_id=lambda: str(uuid.uuid4()),
    )
    return [
        Registration(
            gateway_service_pb2_grpc.add_GatewayServiceServicer_to_server, GatewayServicer(learning, workflow)
        ),
        Registration(rounds_service_pb2_grpc.add_RoundsServiceServicer_to_server, RoundsServicer(rounds)),
    ]


def _create_learning(peers: Peers, archive: TrajectoryArchive | None) -> Learning:
    return Learning(
        curator=CuratorServiceStub(peers.get_channel("curator")),
        reflector=ReflectorServiceStub(peers.get_channel("reflector")),
        archive=archive,
    )


def _create_workflow(peers: Peers) -> ReflectionWorkflow:
    return ReflectionWorkflow(
        playbooks=PlaybookServiceStub(peers.get_channel("curator")),
        search=SearchServiceStub(peers.get_channel("search")),
        recall=EvidenceServiceStub(peers.get_channel("evidence")),
        generator=GeneratorServiceStub(peers.get_channel("planner")),
    )


def _create_http(
    settings: GatewaySettings, peers: Peers, local: Sequence[Registration], access: Access, otlp: ExportReceiver
) -> HttpServer:
    """Return the HTTP server, which calls the servicers of `local` without a connection."""
    # Imports the web framework, which a gateway without HTTP does not need.
    from gateway.http.app import create_app
    from gateway.http.server import HttpServer

    contract, progress, wait = load_contract(), CallsInProgress(), settings.overload_retry_seconds
    servicers = {name: registration.servicer for registration in local for name in collect_handlers(registration)}
    app = create_app(
        contract,
        ContractMethods(peers.get_channel, contract, servicers),
        partial(list_health, peers.get_channel, contract),
        admission=Admission("HTTP requests", settings.max_concurrent_calls, wait),
        streams=Admission("HTTP streams", settings.max_concurrent_streams, wait),
        progress=progress,
        guard=access.guard,
        is_local=settings.auth != "off",
        otlp=otlp,
        get_grpc_address=lambda: peers.own_address,
        max_body_bytes=settings.max_message_bytes,
    )
    grace = settings.drain_grace_seconds
    context = _load_tls_context(settings)
    return HttpServer(app, settings.http_address, grace, progress, HTTP_ADDRESS_VARIABLE, context)


def _load_tls_context(settings: GatewaySettings) -> ssl.SSLContext | None:
    """Return the TLS context of HTTP; None for plaintext. Raises BadSetting if plaintext is not allowed."""
    certificates = Certificates.from_settings(settings)
    if certificates is None:
        require_plaintext_allowed("http", settings.http_address, HTTP_ADDRESS_VARIABLE, settings.plaintext_kinds)
    return None if certificates is None or "http" in settings.plaintext_kinds else certificates.for_http()


def create_prompts(settings: GatewaySettings) -> UserPromptBuilder:
    """Return the prompts of teams and judges: the workspace's, else those of the environment. Raises BadSetting."""
    return UserPromptBuilder(load_prompt_builder_settings(settings.workspace))
