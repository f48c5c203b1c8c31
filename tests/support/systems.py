"""hansei as a user runs it: real processes on loopback ports; one, one for each service, or several for each.

All forms offer the same thing, a gateway address under which every service is found; behaviour tests run on each.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import grpc
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.postgres_server import PostgresServer, find_postgres_programs_or_skip, postgres_server
from tests.support.processes import ModuleCommand, Process, start
from tests.support.shared_resources import CODE

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "deploy/services.yaml").read_text())["services"]
REPLICAS = {"curator": 2, "planner": 2, "evidence": 2, "gateway": 2, "search": 3}
PEERS = tuple(f"{name.upper()}_ADDR" for name in SERVICES if name != "gateway")
"""The variables of the gateway with the addresses of the services behind it."""
METRICS = {"HANSEI_METRICS_ADDRESS": "127.0.0.1:0"}
"""The variable with which a process serves metrics, at an address that its log has."""
START_SECONDS = 240
LOOK_SECONDS = 5
STOP_SECONDS = 30
# Otherwise a channel retries to connect once a second, and less often later.
LOOKING = [
    ("grpc.use_local_subchannel_pool", 1),
    *((f"grpc.{which}_reconnect_backoff_ms", 100) for which in ("initial", "min", "max")),
]

# Below the ports of outgoing connections, one of which could use the port before a server does.
PORTS = range(10_000, 32_768)
_ports = itertools.count(random.randrange(len(PORTS)))


@dataclass(frozen=True)
class Program:
    """The command of a process, to start it for the first time or again."""

    module: str
    address: str
    environment: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class System:
    """A running hansei: the addresses of its services and its processes."""

    form: str
    addresses: Mapping[str, str]
    data: Path
    programs: Mapping[str, Program] = field(repr=False)
    processes: dict[str, Process] = field(repr=False, default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the processes out: only the process that started them ends them."""
        return {**self.__dict__, "processes": {}}

    @property
    def address(self) -> str:
        """Return `host:port` of the gateway."""
        return self.addresses["gateway"]

    def replicas(self, name: str) -> list[str]:
        """Return `host:port` of each process of a service."""
        return self.addresses[name].removeprefix("ipv4:").split(",")

    def log(self, name: str) -> str:
        """Return the log of a process."""
        return (self.data / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def read_metric(self, metric: str, process: str) -> dict[str, float]:
        """Return the values of a Prometheus metric of a process started with `METRICS`, by their labels as text."""
        *_, address = re.findall(r'"metrics_address": ?"([^"]+)"', self.log(process))
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=LOOK_SECONDS) as response:
            text = response.read().decode()
        found = re.findall(rf"^{metric}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)
        return {labels: float(value) for labels, value in found}

    def start(self, name: str) -> None:
        """Start a process, for the first time or after its end."""
        program = self.programs[name]
        command = ModuleCommand(program.module, str(self.data), program.environment)
        with (self.data / f"{name}.log").open("ab") as log:
            self.processes[name] = start(command, log, log)

    def wait_until_started(self, name: str) -> None:
        """Wait until a process serves."""
        wait_until_serving(self, name, self.programs[name].address)

    def kill(self, name: str) -> None:
        """End a process as a power cut would."""
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self, name: str) -> int:
        """Ask a process to end, wait until it has, and return its exit status."""
        self.processes[name].terminate()
        return self.processes[name].wait(STOP_SECONDS)

    def end(self) -> None:
        """Ask all processes to end, and kill those that do not."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """Return a port on which no process listens, and which no other worker of this test run gets."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = PORTS[worker::workers]
    while True:
        port = own[next(_ports) % len(own)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


@contextmanager
def one_process(data: Path, **environment: str) -> Iterator[System]:
    """Run every service in one process on one port."""
    address = f"127.0.0.1:{free_port()}"
    programs = {"allinone": create_program("allinone", address, data, environment)}
    with run_system(System("one process", dict.fromkeys(SERVICES, address), data, programs)) as system:
        yield system


@contextmanager
def separate_processes(data: Path, **environment: str) -> Iterator[System]:
    """Run each service in a process of its own, as on a cluster."""
    with run_system(create_system("separate processes", data, {}, environment)) as system:
        yield system


@contextmanager
def replicated_processes(data: Path, **environment: str) -> Iterator[System]:
    """Run several processes of each service that has state or is called from outside, on one PostgreSQL.

    Skips the test where PostgreSQL is not installed, and fails it where it must be (`find_postgres_programs_or_skip`).
    """
    with (
        postgres_server(find_postgres_programs_or_skip()) as server,
        run_system(
            create_system("replicated", data, REPLICAS, METRICS | server_databases(server) | environment)
        ) as system,
    ):
        yield system


@contextmanager
def two_releases(data: Path, newer: Mapping[str, str], **environment: str) -> Iterator[System]:
    """Run each service in one process on one PostgreSQL; `start("curator-2")` starts one of a newer release.

    The processes of the newer release also have the variables `newer`. Skips and fails as `replicated_processes` does.
    """
    with postgres_server(find_postgres_programs_or_skip()) as server:
        planned = create_system(
            "two releases", data, dict.fromkeys(SERVICES, 2), server_databases(server) | environment
        )
        programs = {
            name: program if name in SERVICES else replace(program, environment={**program.environment, **newer})
            for name, program in planned.programs.items()
        }
        with run_system(replace(planned, programs=programs), SERVICES) as system:
            yield system


@contextmanager
def one_service(data: Path, name: str, **environment: str) -> Iterator[System]:
    """Run one service; `environment` has the addresses of its peers. A test may kill it before the block ends."""
    address = f"127.0.0.1:{free_port()}"
    programs = {name: create_program(_module(name), address, data, environment)}
    with run_system(System("one service", {name: address}, data, programs)) as system:
        yield system


def server_databases(server: PostgresServer) -> dict[str, str]:
    """Return the variables that give each service a database of its own on one server."""
    databases = {name: listed["database"] for name, listed in SERVICES.items() if "database" in listed}
    return {variable: server.database(name) for name, variable in databases.items()}


def create_system(form: str, data: Path, replicas: Mapping[str, int], environment: Mapping[str, str]) -> System:
    """Plan one or several processes a service: the first has the service's name, the others also a number."""
    names = {name: [name, *(f"{name}-{n}" for n in range(2, replicas.get(name, 1) + 1))] for name in SERVICES}
    local = {process: f"127.0.0.1:{free_port()}" for group in names.values() for process in group}
    addresses = {name: join_addresses([local[process] for process in group]) for name, group in names.items()}
    shared = {**{f"{name.upper()}_ADDR": address for name, address in addresses.items()}, **environment}
    programs = {}
    for name, group in names.items():
        for process in group:
            own = {"HANSEI_BULK_EXECUTOR": process, "HANSEI_SEARCH_SNAPSHOT_DIR": str(data / "snapshots" / process)}
            programs[process] = create_program(_module(name), local[process], data, own | shared)
    return System(form, addresses, data, programs)


@contextmanager
def run_system(system: System, names: Iterable[str] = ()) -> Iterator[System]:
    """Start the processes of these names, or all; end all processes that run at the end."""
    first = list(names) or list(system.programs)
    try:
        for name in first:
            system.start(name)
        for name in first:
            system.wait_until_started(name)
        yield system
    finally:
        system.end()


def create_program(module: str, address: str, data: Path, own: Mapping[str, str]) -> Program:
    """Return the command of a process with these variables and those of all tests."""
    return Program(module, address, _environment(data, **{"HANSEI_LISTEN_ADDRESS": address, **own}))


def _module(name: str) -> str:
    return name if name == "gateway" else f"services.{name}"


def join_addresses(addresses: list[str]) -> str:
    """Return the gRPC target of several addresses."""
    return addresses[0] if len(addresses) == 1 else f"ipv4:{','.join(addresses)}"


FORMS = {"one process": one_process, "separate processes": separate_processes, "replicated": replicated_processes}
ON_POSTGRES = {"replicated"}


def failed_start(data: Path, module: str, **environment: str) -> tuple[int, str]:
    """Return the exit status and the standard error of a process that is not supposed to start."""
    env = _environment(data, **{"HANSEI_LISTEN_ADDRESS": "127.0.0.1:0", **environment})
    with TemporaryFile("w+") as output, TemporaryFile("w+", encoding="utf-8") as errors:
        process = start(ModuleCommand(module, str(data), env), output, errors)
        try:
            status = process.wait(START_SECONDS)
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        return status, errors.read()


def wait_until_serving(system: System, name: str, address: str) -> None:
    """Wait until a process is healthy; fail with its log when it is late or has ended."""
    give_up = time.monotonic() + START_SECONDS
    while not _serves(address):
        if system.processes[name].poll() is not None or time.monotonic() > give_up:
            raise AssertionError(f"{name} did not start:\n{system.log(name)[-4000:]}")


def _serves(address: str) -> bool:
    """Return whether the health service reports SERVING within `LOOK_SECONDS`."""
    request = health_pb2.HealthCheckRequest()
    with grpc.insecure_channel(address, options=LOOKING) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(request, timeout=LOOK_SECONDS, wait_for_ready=True)
        try:
            next(response for response in watch if response.status == health_pb2.HealthCheckResponse.SERVING)
        except (grpc.RpcError, StopIteration):
            return False
        watch.cancel()
    return True


def _environment(data: Path, **own: str) -> dict[str, str]:
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("HANSEI_", "OPENAI_", "LLM_", "OTEL_"))}
    defaults = {
        "LLM_PROVIDER": "offline",
        "EMBEDDING_PROVIDER": "hashing",
        "PLAYBOOK_DATA_DIR": str(data / "playbooks"),
        "HANSEI_HTTP_ADDRESS": "",
        "HANSEI_LAME_DUCK_SECONDS": "0",
        "PYTHONPATH": CODE,
    }
    return {**keep, **defaults, **own}
