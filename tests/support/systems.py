"""hansei as a user runs it: real processes on loopback ports, in one, in one a service, or in several of each.

All forms offer the same thing, a gateway address under which every service is found; behaviour tests run on each.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import grpc
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.postgres_server import PostgresServer, binaries_or_skip, postgres_server
from tests.support.processes import ModuleCommand, Process, start
from tests.support.shared_resources import CODE

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "deploy/services.yaml").read_text())["services"]
REPLICAS = {"curator": 2, "planner": 2, "gateway": 2, "search": 3}
START_SECONDS = 240
LOOK_SECONDS = 5
STOP_SECONDS = 30
# A channel otherwise looks once a second, and less often later, whether somebody listens.
LOOKING = [
    ("grpc.use_local_subchannel_pool", 1),
    *((f"grpc.{which}_reconnect_backoff_ms", 100) for which in ("initial", "min", "max")),
]

# Below those that the system gives to outgoing connections, one of which could take it before a server does.
PORTS = range(10_000, 32_768)
_ports = itertools.count(random.randrange(len(PORTS)))


@dataclass(frozen=True)
class Program:
    """How a process is started, and started again."""

    module: str
    address: str
    environment: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class System:
    """A running hansei: where its gateway is, where each service is, and the processes behind it."""

    form: str
    addresses: Mapping[str, str]
    data: Path
    programs: Mapping[str, Program] = field(repr=False)
    processes: dict[str, Process] = field(repr=False, default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """For other processes than the one that started it: its processes are not theirs to end."""
        return {**self.__dict__, "processes": {}}

    @property
    def address(self) -> str:
        """`host:port` of the gateway."""
        return self.addresses["gateway"]

    def replicas(self, name: str) -> list[str]:
        """`host:port` of each process of a service."""
        return self.addresses[name].removeprefix("ipv4:").split(",")

    def log(self, name: str) -> str:
        """What a process has written so far."""
        return (self.data / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def start(self, name: str) -> None:
        """Start a process, for the first time or where one was."""
        program = self.programs[name]
        command = ModuleCommand(program.module, str(self.data), program.environment)
        with (self.data / f"{name}.log").open("ab") as log:
            self.processes[name] = start(command, log, log)

    def started(self, name: str) -> None:
        """Wait until a process serves."""
        wait_until_serving(self, name, self.programs[name].address)

    def kill(self, name: str) -> None:
        """End a process as a power cut would."""
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self, name: str) -> int:
        """Ask a process to end, and wait until it has; its exit status."""
        self.processes[name].terminate()
        return self.processes[name].wait(STOP_SECONDS)

    def end(self) -> None:
        """End all processes: asked first, killed if they do not."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """A port that nobody listens on, and that no other worker of this run of the tests is given."""
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
    """Every service in one process on one port."""
    address = f"127.0.0.1:{free_port()}"
    programs = {"allinone": _program("allinone", address, data, environment)}
    with _running(System("one process", dict.fromkeys(SERVICES, address), data, programs)) as system:
        yield system


@contextmanager
def separate_processes(data: Path, **environment: str) -> Iterator[System]:
    """One process a service, as on a cluster."""
    with _running(_planned("separate processes", data, {}, environment)) as system:
        yield system


@contextmanager
def replicated(data: Path, **environment: str) -> Iterator[System]:
    """Several processes of each service that keeps state or is called from outside, on one PostgreSQL.

    Skips the test where PostgreSQL is not installed, and fails it where it must be (`binaries_or_skip`).
    """
    with (
        postgres_server(binaries_or_skip()) as server,
        _running(_planned("replicated", data, REPLICAS, server_databases(server) | environment)) as system,
    ):
        yield system


@contextmanager
def two_releases(data: Path, newer: Mapping[str, str], **environment: str) -> Iterator[System]:
    """One process a service on one PostgreSQL, and the place of a second: `start("curator-2")`, of a newer release.

    `newer` is what that one has in its environment besides. Skips and fails as `replicated` does.
    """
    with postgres_server(binaries_or_skip()) as server:
        planned = _planned("two releases", data, dict.fromkeys(SERVICES, 2), server_databases(server) | environment)
        programs = {
            name: program if name in SERVICES else replace(program, environment={**program.environment, **newer})
            for name, program in planned.programs.items()
        }
        with _running(replace(planned, programs=programs), SERVICES) as system:
            yield system


@contextmanager
def one_service(data: Path, name: str, **environment: str) -> Iterator[System]:
    """The process of one service; `environment` says where its peers are. It may be killed before the block ends."""
    address = f"127.0.0.1:{free_port()}"
    programs = {name: _program(_module(name), address, data, environment)}
    with _running(System("one service", {name: address}, data, programs)) as system:
        yield system


def server_databases(server: PostgresServer) -> dict[str, str]:
    """The variables that give each service a database of its own on one server."""
    kept = {name: listed["database"] for name, listed in SERVICES.items() if "database" in listed}
    return {variable: server.database(name) for name, variable in kept.items()}


def _planned(form: str, data: Path, replicas: Mapping[str, int], environment: Mapping[str, str]) -> System:
    """Every service as one process or several; the first bears the service's name, the others also a number."""
    names = {name: [name, *(f"{name}-{n}" for n in range(2, replicas.get(name, 1) + 1))] for name in SERVICES}
    local = {each: f"127.0.0.1:{free_port()}" for group in names.values() for each in group}
    addresses = {name: _together([local[each] for each in group]) for name, group in names.items()}
    shared = {**{f"{name.upper()}_ADDR": address for name, address in addresses.items()}, **environment}
    programs = {}
    for name, group in names.items():
        for each in group:
            own = {"HANSEI_BULK_EXECUTOR": each, "HANSEI_SEARCH_SNAPSHOT_DIR": str(data / "snapshots" / each)}
            programs[each] = _program(_module(name), local[each], data, own | shared)
    return System(form, addresses, data, programs)


@contextmanager
def _running(system: System, names: Iterable[str] = ()) -> Iterator[System]:
    """Start the processes of these names, or all, and end whatever runs at the end."""
    first = list(names) or list(system.programs)
    try:
        for name in first:
            system.start(name)
        for name in first:
            system.started(name)
        yield system
    finally:
        system.end()


def _program(module: str, address: str, data: Path, own: Mapping[str, str]) -> Program:
    return Program(module, address, _environment(data, **{"HANSEI_LISTEN_ADDRESS": address, **own}))


def _module(name: str) -> str:
    return name if name == "gateway" else f"services.{name}"


def _together(addresses: list[str]) -> str:
    """Where all of them are, as gRPC writes what one name stands for."""
    return addresses[0] if len(addresses) == 1 else f"ipv4:{','.join(addresses)}"


FORMS = {"one process": one_process, "separate processes": separate_processes, "replicated": replicated}
ON_POSTGRES = {"replicated"}


def failed_start(data: Path, module: str, **environment: str) -> tuple[int, str]:
    """The exit status and the last words of a process that is not supposed to start."""
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
    """Wait for health to say SERVING; fail with the process's log when it does not, or when the process has ended."""
    give_up = time.monotonic() + START_SECONDS
    while not _serves(address):
        if system.processes[name].poll() is not None or time.monotonic() > give_up:
            raise AssertionError(f"{name} did not start:\n{system.log(name)[-4000:]}")


def _serves(address: str) -> bool:
    """Whether health says SERVING, within the time after which it is worth looking at the process again."""
    request = health_pb2.HealthCheckRequest()
    with grpc.insecure_channel(address, options=LOOKING) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(request, timeout=LOOK_SECONDS, wait_for_ready=True)
        try:
            next(each for each in watch if each.status == health_pb2.HealthCheckResponse.SERVING)
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
