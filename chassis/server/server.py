"""The gRPC server of a process: its options, its port, and the services on it."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from chassis.guard import Guard
from chassis.own_server import OwnServer
from chassis.policy import Policies, load_policies
from chassis.server.admission import Admission
from chassis.server.edge import MethodEdge, ServiceGate
from chassis.server.health import Health
from chassis.server.progress import CallsInProgress
from chassis.server.service import Registration, Service
from chassis.settings import BadSetting, ServiceSettings
from chassis.tls import Callers, Certificates, require_plaintext_allowed

HEALTH_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
_MS = 1000


def build_server_options(settings: ServiceSettings) -> list[tuple[str, int]]:
    """Return the channel arguments of a server."""
    return [
        # On by default: a second server on the same port would silently get half of the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        # Clients resolve addresses again when a connection ends, and so find new servers.
        ("grpc.max_connection_age_ms", settings.max_connection_age_seconds * _MS),
        # Clients ping idle connections every minute; by default the server would disconnect them.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 30 * _MS),
        ("grpc.keepalive_time_ms", 120 * _MS),
        ("grpc.keepalive_timeout_ms", 20 * _MS),
    ]


class Server:
    """A ``grpc.aio`` server with health, reflection and any number of services behind the edge."""

    def __init__(self, settings: ServiceSettings, certificates: Certificates | None = None) -> None:
        """Serve over TLS with `certificates`; request client certificates if the settings name allowed callers."""
        self._settings = settings
        self._certificates = certificates
        self._callers = _read_callers(settings, certificates)
        self._grpc: Any = grpc.aio.server(options=build_server_options(settings))
        self._gates: dict[str, list[ServiceGate]] = {}
        self._names: dict[str, list[str]] = {}
        self._handlers: dict[str, Any] = {}
        self._for_probes: grpc.aio.Server | None = None
        self.progress = CallsInProgress()
        self.health = Health(())

    def bind(self, address: str) -> str:
        """Bind a port, without serving yet; return the address with the real port."""
        try:
            if self._certificates is not None:
                credentials = self._certificates.for_server(require_client_certificate=self._callers is not None)
                port = self._grpc.add_secure_port(address, credentials)
            else:
                require_plaintext_allowed("grpc", address, "HANSEI_LISTEN_ADDRESS", self._settings.plaintext_kinds)
                port = self._grpc.add_insecure_port(address)
        except RuntimeError as error:
            reason = _find_bind_failure(address) or error
            raise BadSetting(f"HANSEI_LISTEN_ADDRESS: cannot listen on {address!r}: {reason}") from error
        return address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"

    def describe_own(self, address: str) -> OwnServer:
        """Return this server for the channels of its own process, which reach it at an address."""
        names = () if self._certificates is None else self._certificates.get_current().names
        return OwnServer(address, self._settings.max_message_bytes, names, self._handlers)

    def bind_for_probes(self, address: str) -> None:
        """Bind a port that serves health only, without TLS, which Kubernetes probes do not support."""
        require_plaintext_allowed("health", address, "HANSEI_HEALTH_ADDRESS", self._settings.plaintext_kinds)
        self._for_probes = grpc.aio.server(options=build_server_options(self._settings))
        try:
            self._for_probes.add_insecure_port(address)
        except RuntimeError as error:
            reason = _find_bind_failure(address) or error
            raise BadSetting(f"HANSEI_HEALTH_ADDRESS: cannot listen on {address!r}: {reason}") from error

    def register(self, services: Sequence[Service]) -> None:
        """Register services; call it before `start`."""
        policies = load_policies()
        for service in services:
            self._gates[service.name], self._names[service.name] = [], []
            for registration in service.registrations:
                self._register(service, registration, policies)
        self._grpc.add_generic_rpc_handlers([_Handlers(self._handlers)])
        names = [name for names in self._names.values() for name in names]
        self.health = Health(names)
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._grpc)
        if self._for_probes is not None:
            health_pb2_grpc.add_HealthServicer_to_server(self.health, self._for_probes)
        if self._settings.reflection:
            reflection.enable_server_reflection([*names, HEALTH_SERVICE, reflection.SERVICE_NAME], self._grpc)

    def _register(self, owner: Service, registration: Registration, policies: Policies) -> None:
        for name, handlers in collect_handlers(registration).items():
            endless = find_endless_methods(name, handlers, registration, policies)
            gate = self._build_gate(name, owner.guard)
            wrapped = {
                method: MethodEdge(f"/{name}/{method}", handler, gate, endless=method in endless).handler
                for method, handler in handlers.items()
            }
            self._gates[owner.name].append(gate)
            self._names[owner.name].append(name)
            self._handlers |= {f"/{name}/{method}": handler for method, handler in wrapped.items()}

    def _build_gate(self, name: str, guard: Guard) -> ServiceGate:
        settings = self._settings
        return ServiceGate(
            name=shorten_name(name),
            callers=self._callers,
            progress=self.progress,
            calls=Admission(f"calls of {name}", settings.max_concurrent_calls, settings.overload_retry_seconds),
            streams=Admission(f"streams of {name}", settings.max_concurrent_streams, settings.overload_retry_seconds),
            guard=guard,
        )

    async def start(self) -> None:
        """Serve health and reflection at once, and each service after `set_ready`."""
        for server in filter(None, (self._grpc, self._for_probes)):
            # A server that is cancelled while it starts cannot be stopped without an error in its main loop.
            await asyncio.shield(server.start())

    def set_ready(self, service: Service) -> None:
        """Let the calls of a service reach its handlers."""
        for gate in self._gates[service.name]:
            gate.ready = True
        self.health.set_ready(self._names[service.name])

    def names(self, service: Service) -> Collection[str]:
        """Return the full gRPC names of a service."""
        return self._names[service.name]

    async def stop(self, grace: float) -> None:
        """Accept no more calls, wait `grace` seconds for those in progress, and cancel the rest."""
        self.health.end_watches()
        await self._grpc.stop(grace)
        if self._for_probes is not None:
            await self._for_probes.stop(0)


def _find_bind_failure(address: str) -> str:
    """Return the reason why nothing can listen on `host:port`, which gRPC does not tell; empty if it is unknown."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(target)
    except OSError as error:
        return error.strerror or ""
    return ""


def _read_callers(settings: ServiceSettings, certificates: Certificates | None) -> Callers | None:
    """Return the allowed callers, and this process itself; None if everybody may call."""
    if not settings.allowed_callers:
        return None
    if certificates is None:
        raise BadSetting(
            "HANSEI_TLS_CALLERS: callers are identified by their certificates, so HANSEI_TLS_CERTIFICATE, "
            "HANSEI_TLS_KEY and HANSEI_TLS_AUTHORITIES must be set"
        )
    return Callers([*settings.allowed_callers, *certificates.get_current().names])


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """All handlers of a server, by path.

    With handlers that are registered by name, gRPC waits again for a call of each of them, for every call: of the 127
    methods of one process that takes longer than this look-up.
    """

    def __init__(self, handlers: Mapping[str, Any]) -> None:
        self._handlers = handlers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call, None without one."""
        return self._handlers.get(handler_call_details.method)


class _Collector:
    """A server that only collects the handlers that the generated code registers."""

    def __init__(self) -> None:
        self.handlers: dict[str, dict[str, Any]] = {}

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Do nothing: the generated code also registers each method by name."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        self.handlers[service] = handlers


def collect_handlers(registration: Registration) -> dict[str, dict[str, Any]]:
    """Return the handlers of a registration, by the full name of the service and by method."""
    collector = _Collector()
    registration.add(registration.servicer, collector)
    if not collector.handlers:
        raise TypeError(f"{registration.add} did not call add_registered_method_handlers")
    return collector.handlers


def find_endless_methods(
    name: str, methods: Collection[str], registration: Registration, policies: Policies
) -> frozenset[str]:
    """Return the methods that never end by themselves: without a timeout in their policy, or listed as endless."""
    unknown = set(registration.endless) - set(methods)
    if unknown:
        raise ValueError(f"{name} has no method {sorted(unknown)}")
    unbounded = (m for m in methods if (p := policies.get(f"/{name}/{m}")) is not None and p.timeout_seconds is None)
    return frozenset([*registration.endless, *unbounded])


def shorten_name(full_name: str) -> str:
    """Return `search` for `hansei.search.v1.SearchService`: the last part of the package that is not a version."""
    parts = [part for part in full_name.split(".")[:-1] if not re.fullmatch(r"v\d+\w*", part)]
    return parts[-1] if parts else full_name
