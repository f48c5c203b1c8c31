"""The pods of an overlay as processes on loopback: the environment, ports and probes of the manifests, no others.

What a cluster would do is done here by the same rules: a peer's address goes through the rendered Service to the port
of the pod it selects, a volume is a folder, a probe is asked over gRPC, and a pod ends within its grace period.
PostgreSQL is real, and set up by the script that the cluster mounts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.behaviour.postgres_server import PostgresServer
from tests.deploy.rendered import Manifests, Object, container, pod, ports
from tests.systems import ROOT, SERVICES, free_port

_ADDRESS = re.compile(r"(?<![\w.-])([a-z0-9][a-z0-9.-]*):(\d+)")


@dataclass
class Cluster:
    """Running pods."""

    manifests: Manifests
    data: Path
    postgres: PostgresServer
    local: dict[tuple[str, int], int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def port(self, name: str, port: int) -> int:
        """Where a pod's container port is on this machine."""
        if name == "postgres":
            return self.postgres.port
        return self.local.setdefault((name, port), free_port())

    def address(self, service: str, port: int) -> str:
        """Where a port of a Service leads."""
        found = self.manifests.named("Service", service)["spec"]
        (target,) = self.manifests.pods_of(found["selector"])
        (name,) = (each["targetPort"] for each in found["ports"] if each["port"] == port)
        return f"127.0.0.1:{self.port(target, ports(self.manifests.workloads()[target])[name])}"

    def environment(self, name: str) -> dict[str, str]:
        """What the manifests give a pod, with addresses and folders of this machine."""
        workload = self.manifests.workloads()[name]
        given = self.manifests.environment(container(workload))
        return {key: self._here(name, workload, value) for key, value in given.items()}

    def _here(self, name: str, workload: Object, value: str) -> str:
        for mount in container(workload)["volumeMounts"]:
            if value.startswith(mount["mountPath"]):
                return str(self.data / name / value.lstrip("/"))
        if value.startswith("0.0.0.0:"):
            return f"127.0.0.1:{self.port(name, int(value.rpartition(':')[2]))}"
        known = {each["metadata"]["name"] for each in self.manifests.kind("Service")}
        return _ADDRESS.sub(lambda m: self.address(m[1], int(m[2])) if m[1] in known else m[0], value)

    def log(self, name: str) -> str:
        return (self.data / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def probe(self, name: str, kind: str, seconds: float) -> str:
        """What a pod answers to one of its probes."""
        asked = container(self.manifests.workloads()[name])[kind]["grpc"]
        with grpc.insecure_channel(f"127.0.0.1:{self.port(name, asked['port'])}") as channel:
            request = health_pb2.HealthCheckRequest(service=asked.get("service", ""))
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=seconds)
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))

    def started(self, name: str) -> None:
        """Wait until the startup probe succeeds, as long as the kubelet would; fail with the pod's log."""
        probe = container(self.manifests.workloads()[name])["startupProbe"]
        seconds = probe["periodSeconds"] * probe["failureThreshold"]
        asked = probe["grpc"]
        with grpc.insecure_channel(f"127.0.0.1:{self.port(name, asked['port'])}") as channel:
            request = health_pb2.HealthCheckRequest(service=asked.get("service", ""))
            watch = health_pb2_grpc.HealthStub(channel).Watch(request, timeout=seconds, wait_for_ready=True)
            try:
                next(each for each in watch if each.status == health_pb2.HealthCheckResponse.SERVING)
            except (grpc.RpcError, StopIteration) as error:
                raise AssertionError(f"{name} did not start: {error}\n{self.log(name)[-4000:]}") from error
            watch.cancel()

    def terminate(self, name: str) -> int:
        """End a pod as the kubelet does after its preStop; its exit status. Raises `TimeoutExpired` if late."""
        workload = self.manifests.workloads()[name]
        left = pod(workload)["terminationGracePeriodSeconds"] - _pause(workload)
        process = self.processes.pop(name)
        process.terminate()
        return process.wait(left)


def _pause(workload: Object) -> int:
    return int(container(workload)["lifecycle"]["preStop"]["sleep"]["seconds"])


@contextmanager
def cluster(manifests: Manifests, postgres: PostgresServer, data: Path) -> Iterator[Cluster]:
    """All services of an overlay, started together as on a cluster, until each has met its startup probe."""
    _make_databases(manifests, postgres)
    made = Cluster(manifests, data, postgres)
    with ExitStack() as stack:
        for name in SERVICES:
            stack.enter_context(_process(made, name))
        for name in SERVICES:
            made.started(name)
        yield made


def _make_databases(manifests: Manifests, postgres: PostgresServer) -> None:
    given = container(manifests.workloads()["postgres"])
    (mounted,) = (v["configMap"]["name"] for v in pod(manifests.workloads()["postgres"])["volumes"] if "configMap" in v)
    script = manifests.named("ConfigMap", mounted)["data"]["databases.sql"]
    subprocess.run(
        [str(postgres.programs / "psql"), "-q", "-X", postgres.url],
        input=script,
        env={**os.environ, **manifests.environment(given)},
        text=True,
        check=True,
        timeout=60,
    )


@contextmanager
def _process(made: Cluster, name: str) -> Iterator[None]:
    module = name if name == "gateway" else f"services.{name}"
    # What the image adds: where Python and the code are.
    image = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "stubs", "sdk")),
    }
    home = made.data / name
    home.mkdir()
    with (made.data / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module], cwd=home, env={**image, **made.environment(name)}, stdout=log, stderr=log
        )
        made.processes[name] = process
        try:
            yield
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
