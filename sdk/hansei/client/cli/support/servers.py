"""Collect the health, contracts, playbook sizes and metrics of the running services."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from chassis.channel_options import build_target
from chassis.deadlines import time_limit
from chassis.errors import HanseiError
from chassis.policy import load_policies
from chassis.settings import ServiceSettings, list_settings
from hansei.client.cli.service_checks import SECONDS
from hansei.client.cli.support import contracts
from hansei.client.cli.support.archive import BundlePart, OmittedPart
from hansei.client.server import ServerNotInstalledError, load_server
from hansei.client.tls import Tls, build_credentials

MAX_METRICS_BYTES = 2 * 1024 * 1024
MAX_DATASETS = 1000
MAX_INDEXES = 100
"""The number of datasets whose index is asked for its revision."""


def collect_health(address: str | None) -> Iterator[BundlePart | OmittedPart]:
    """Yield health and contract of the gateway, and of each service at the address in the gateway's settings."""
    processes: dict[str, Any] = {}
    for name, peer in _list_addresses(address).items():
        try:
            with _open_channel(peer) as channel:
                contract = contracts.compare_contracts(channel)
                processes[name] = {"address": peer, "health": _fetch_health(channel), "contract": contract}
        except grpc.RpcError as error:
            code = cast(grpc.Call, error).code().name
            yield OmittedPart(f"health and contract of the {name}", f"{peer} did not answer: {code}")
    yield BundlePart("servers.json", "the health of each process, and its differences from this contract", processes)


def collect_playbooks(address: str | None) -> Iterator[BundlePart | OmittedPart]:
    """Yield the size, the revision and the time of each dataset, and the revision of its index."""
    from hansei.client.client import Client

    sizes: list[dict[str, Any]] = []
    try:
        with Client(address) as client, time_limit(4 * SECONDS):
            page = client.playbooks.list_datasets(page_size=MAX_DATASETS)
            for number, dataset in enumerate(page.datasets):
                size = {
                    "dataset": dataset.name,
                    "bullets": dataset.bullets,
                    "revision": dataset.revision,
                    "changed": dataset.updated_at.ToJsonString(),
                }
                if number < MAX_INDEXES:
                    size["index_revision"] = client.index.get_status(dataset=dataset.name).revision
                sizes.append(size)
    except HanseiError as error:
        yield OmittedPart("some or all sizes of playbooks", f"{error.code} {error.reason}: {error.message}")
    else:
        if page.next_page_token:
            yield OmittedPart("more datasets", f"only the first {MAX_DATASETS} are listed")
    if sizes:
        yield BundlePart("playbooks.json", "sizes and revisions of playbooks and their indexes, without texts", sizes)


def collect_metrics() -> Iterator[BundlePart | OmittedPart]:
    """Yield the Prometheus metrics at HANSEI_METRICS_ADDRESS."""
    (row,) = (row for row in list_settings(ServiceSettings) if row.name == "metrics_address")
    address, _ = row.read_value()
    if not address or address.endswith(":0"):
        yield OmittedPart("metrics", "HANSEI_METRICS_ADDRESS is not set here, or has no port")
        return
    try:
        text = _fetch_metrics(address)
    except (OSError, ValueError, HTTPException) as error:
        yield OmittedPart("metrics", f"{address} did not answer: {error}")
    else:
        yield BundlePart("metrics.txt", f"the Prometheus metrics at {address}", text)


def _fetch_metrics(address: str) -> str:
    tls = Tls.from_environment()
    connection = (
        HTTPSConnection(address, timeout=SECONDS, context=_build_ssl_context(tls))
        if tls
        else HTTPConnection(address, timeout=SECONDS)
    )
    with closing(connection):
        connection.request("GET", "/metrics")
        return connection.getresponse().read(MAX_METRICS_BYTES).decode("utf-8", "replace")


def _build_ssl_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.authorities or None)
    if tls.certificate:
        context.load_cert_chain(tls.certificate, tls.key)
    return context


def _list_addresses(address: str | None) -> dict[str, str]:
    """Return the addresses of the gateway and of the services that run as processes of their own."""
    from hansei.client.client import choose_address

    try:
        rows = list_settings(load_server().load_settings_classes()["gateway"])
    except ServerNotInstalledError:
        rows = []
    peers = {row.name.removesuffix("_addr"): row.read_value()[0] for row in rows if row.name.endswith("_addr")}
    separate = {name: peer for name, peer in peers.items() if peer not in ("", "self")}
    return {"gateway": choose_address(address)} | separate


def _open_channel(address: str) -> grpc.Channel:
    credentials = build_credentials(None)
    name = build_target(address)
    return grpc.secure_channel(name, credentials) if credentials else grpc.insecure_channel(name)


def _fetch_health(channel: grpc.Channel) -> dict[str, str]:
    """Return the health of a process as a whole, and of each service of the contract that it serves."""
    stub, health = health_pb2_grpc.HealthStub(channel), {}
    services = sorted({path.split("/")[1] for path in load_policies()})
    for name in ("", *services):
        try:
            response = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS)
        except grpc.RpcError as error:
            if cast(grpc.Call, error).code() is not grpc.StatusCode.NOT_FOUND:
                raise
            continue
        health[name or "the process"] = health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)
    return health
