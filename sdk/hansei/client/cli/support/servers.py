"""What the running services say: health, contracts, sizes of playbooks, metrics. Each is asked for a few seconds."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from chassis.channels import target
from chassis.deadlines import time_limit
from chassis.errors import HanseiError
from chassis.policy import installed_policies
from chassis.settings import ServiceSettings, settings_table
from hansei.client.cli.checks import SECONDS
from hansei.client.cli.support import contracts
from hansei.client.cli.support.archive import LeftOut, Part
from hansei.client.server import ServerNotInstalledError, server
from hansei.client.tls import Tls, credentials_of

MAX_METRICS_BYTES = 2 * 1024 * 1024
MAX_DATASETS = 1000
INDEXES = 100
"""Datasets whose index is asked for."""


def health(address: str | None) -> Iterator[Part | LeftOut]:
    """Health and contract of the gateway, and of each service at the address that the gateway's settings give."""
    found: dict[str, Any] = {}
    for name, place in _addresses(address).items():
        try:
            with _channel(place) as channel:
                found[name] = {"address": place, "health": _health(channel), "contract": contracts.compared(channel)}
        except grpc.RpcError as error:
            code = cast(grpc.Call, error).code().name
            yield LeftOut(f"health and contract of the {name}", f"{place} did not answer: {code}")
    yield Part("servers.json", "health of each process, and how its contract differs from the one here", found)


def playbooks(address: str | None) -> Iterator[Part | LeftOut]:
    """Of each dataset: bullets, the newest revision, when it changed, and how far its index is."""
    from hansei.client.client import Client

    found: list[dict[str, Any]] = []
    try:
        with Client(address) as client, time_limit(4 * SECONDS):
            listed = client.playbooks.list_datasets(page_size=MAX_DATASETS)
            for number, each in enumerate(listed.datasets):
                about = {
                    "dataset": each.name,
                    "bullets": each.bullets,
                    "revision": each.revision,
                    "changed": each.updated_at.ToJsonString(),
                }
                if number < INDEXES:
                    about["index_revision"] = client.index.get_status(dataset=each.name).revision
                found.append(about)
    except HanseiError as error:
        yield LeftOut("some or all sizes of playbooks", f"{error.code} {error.reason}: {error.message}")
    else:
        if listed.next_page_token:
            yield LeftOut("more datasets", f"only the first {MAX_DATASETS} are listed")
    if found:
        yield Part("playbooks.json", "sizes and revisions of playbooks and their indexes; none of their texts", found)


def metrics() -> Iterator[Part | LeftOut]:
    """What Prometheus would read at HANSEI_METRICS_ADDRESS now."""
    (row,) = (each for each in settings_table(ServiceSettings) if each.name == "metrics_address")
    address, _ = row.current_value()
    if not address or address.endswith(":0"):
        yield LeftOut("metrics", "HANSEI_METRICS_ADDRESS does not say here where they are served")
        return
    try:
        text = _read(address)
    except (OSError, ValueError, HTTPException) as error:
        yield LeftOut("metrics", f"{address} did not answer: {error}")
    else:
        yield Part("metrics.txt", f"the metrics at {address}, as Prometheus reads them", text)


def _read(address: str) -> str:
    tls = Tls.from_environment()
    connection = (
        HTTPSConnection(address, timeout=SECONDS, context=_context(tls))
        if tls
        else HTTPConnection(address, timeout=SECONDS)
    )
    with closing(connection):
        connection.request("GET", "/metrics")
        return connection.getresponse().read(MAX_METRICS_BYTES).decode("utf-8", "replace")


def _addresses(address: str | None) -> dict[str, str]:
    """The gateway, and those services behind it that are processes of their own."""
    from hansei.client.client import address_or_default

    try:
        rows = settings_table(server().settings_classes()["gateway"])
    except ServerNotInstalledError:
        rows = []
    peers = {row.name.removesuffix("_addr"): row.current_value()[0] for row in rows if row.name.endswith("_addr")}
    return {"gateway": address_or_default(address)} | {name: at for name, at in peers.items() if at not in ("", "self")}


def _channel(address: str) -> grpc.Channel:
    tls = credentials_of(None)
    return grpc.secure_channel(target(address), tls) if tls else grpc.insecure_channel(target(address))


def _health(channel: grpc.Channel) -> dict[str, str]:
    """What a process says of itself as a whole, and of each service of the contract that it serves."""
    stub, found = health_pb2_grpc.HealthStub(channel), {}
    services = sorted({path.split("/")[1] for path in installed_policies()})
    for name in ("", *services):
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS)
        except grpc.RpcError as error:
            if cast(grpc.Call, error).code() is not grpc.StatusCode.NOT_FOUND:
                raise
            continue
        found[name or "the process"] = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return found


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.authorities or None)
    if tls.certificate:
        context.load_cert_chain(tls.certificate, tls.key)
    return context
