"""Run the pods of an overlay as processes on loopback, with the environment, ports and probes of the manifests.

The processes follow the rules of a cluster: a peer's address goes through the rendered Service to the port
of the pod it selects, a volume is a folder, a probe is asked over gRPC, and a pod ends within its grace period.
PostgreSQL is real, and set up by the script that the cluster mounts. Where the manifests ask for certificates an
authority of the tests issues them, for the names they ask for; <service>.localhost stands in for the cluster's DNS.
Another `PodNetwork` puts each pod on a host of its own (`tests/resilience/namespaces.py`).
"""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

import grpc
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.deploy.manifests import POD_IP, Manifests, container, ports
from tests.deploy.manifests import pod as spec
from tests.fakes.authority import Authority
from tests.support.postgres_server import PostgresServer
from tests.support.processes import ModuleCommand, Process, start
from tests.support.shared_resources import CODE
from tests.support.systems import LOOKING, SERVICES, free_port

_ADDRESS = re.compile(r"(?<![\w.-])([a-z0-9][a-z0-9.-]*):(\d+)")


@dataclass(frozen=True)
class Pod:
    """One pod of a workload."""

    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.name}-{self.number}"


class PodNetwork(Protocol):
    """The addresses and processes of pods."""

    def listen_address(self, pod: Pod, port: int) -> str:
        """Return the address at which a pod listens instead of on all interfaces, for a port of its container."""

    def peer_address(self, pod: Pod, port: int) -> str:
        """Return the `host:port` at which other pods reach it."""

    def test_address(self, pod: Pod, port: int) -> str:
        """Return the `host:port` at which the tests reach it."""

    def start_pod(self, pod: Pod, command: ModuleCommand, log: IO[bytes]) -> Process:
        """Start the process of a pod."""


class Loopback:
    """Pods on this machine's loopback; each container port gets a free port."""

    def __init__(self, postgres: PostgresServer) -> None:
        self._postgres = postgres
        self._ports: dict[tuple[Pod, int], int] = {}

    def listen_address(self, pod: Pod, port: int) -> str:
        if pod.name == "postgres":
            return f"127.0.0.1:{self._postgres.port}"
        return f"127.0.0.1:{self._ports.setdefault((pod, port), free_port())}"

    peer_address = test_address = listen_address

    def start_pod(self, _: Pod, command: ModuleCommand, log: IO[bytes]) -> Process:
        return start(command, log, log)


@dataclass
class Cluster:
    """Running pods."""

    manifests: Manifests
    data: Path
    postgres: PostgresServer
    replicas: Mapping[str, int]
    network: PodNetwork
    processes: dict[Pod, Process] = field(default_factory=dict)
    authority: Authority = field(default_factory=Authority)
    extra: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Variables that a test adds to those of a workload."""

    def pods(self, name: str) -> list[Pod]:
        """Return the pods of a workload."""
        return [Pod(name, number) for number in range(self.replicas.get(name, 1))]

    def address(self, service: str, port: int) -> str:
        """Return the address at which the tests reach a port of a Service."""
        return self._behind(service, port, self.network.test_address)

    def _behind(self, service: str, port: int, address_of: Callable[[Pod, int], str]) -> str:
        """Return the gRPC target of a port of a Service: one pod, or the list of all its pods."""
        found = self.manifests.manifest("Service", service)["spec"]
        (target,) = self.manifests.pods_of(found["selector"])
        (name,) = (port_entry["targetPort"] for port_entry in found["ports"] if port_entry["port"] == port)
        inside = ports(self.manifests.workloads()[target])[name]
        addresses = [address_of(pod, inside) for pod in self.pods(target)]
        if len(addresses) > 1:
            return f"ipv4:{','.join(addresses)}"
        # A certificate needs a name; this one resolves to loopback.
        return addresses[0].replace("127.0.0.1", f"{service}.localhost") if self.names(target) else addresses[0]

    def names(self, workload: str) -> list[str]:
        """Return the names in the certificate of a workload's pods; none without a certificate."""
        mounted = {
            volume.get("secret", {}).get("secretName")
            for volume in spec(self.manifests.workloads()[workload])["volumes"]
        }
        found = (certificate["spec"] for certificate in self.manifests.kind("Certificate"))
        return [
            name for certificate in found if certificate["secretName"] in mounted for name in certificate["dnsNames"]
        ]

    def http(self, service: str, port: int, path: str, **options: Any) -> httpx.Response:
        """Send a request to a Service over HTTP, or HTTPS if it has a certificate; `options` go to httpx."""
        number = self.address(service, port).rpartition(":")[2]
        method, secure = options.pop("method", "GET"), bool(self.names(service))
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        with httpx.Client(verify=context, timeout=30, trust_env=False) as client:
            url = f"{'https' if secure else 'http'}://127.0.0.1:{number}{path}"
            return client.request(method, url, extensions={"sni_hostname": service}, **options)

    def environment(self, name: str, number: int = 0) -> dict[str, str]:
        """Return the environment of a pod by its manifests, with addresses and folders of this machine."""
        variables = self.manifests.environment(container(self.manifests.workloads()[name]))
        here = {key: self._here(Pod(name, number), value) for key, value in variables.items()}
        return {**here, **self.extra.get(name, {})}

    def _here(self, pod: Pod, value: str) -> str:
        for mount in container(self.manifests.workloads()[pod.name])["volumeMounts"]:
            if value.startswith(mount["mountPath"]):
                return str(self.data / str(pod) / value.lstrip("/"))
        if value.startswith("0.0.0.0:"):
            return self.network.listen_address(pod, int(value.rpartition(":")[2]))
        if value == POD_IP:
            own = self.network.peer_address(pod, ports(self.manifests.workloads()[pod.name])["grpc"])
            return own.rpartition(":")[0]
        services = {service["metadata"]["name"] for service in self.manifests.kind("Service")}
        return _ADDRESS.sub(
            lambda m: self._behind(m[1], int(m[2]), self.network.peer_address) if m[1] in services else m[0], value
        )

    def log(self, pod: Pod) -> str:
        return (self.data / f"{pod}.log").read_text(encoding="utf-8", errors="replace")

    def probe(self, name: str, kind: str, seconds: float) -> str:
        """Return the health status with which a pod answers one of its probes."""
        probe = container(self.manifests.workloads()[name])[kind]["grpc"]
        with grpc.insecure_channel(self.network.test_address(Pod(name), probe["port"])) as channel:
            request = health_pb2.HealthCheckRequest(service=probe.get("service", ""))
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=seconds)
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))

    def start(self, pod: Pod) -> None:
        """Start a pod's process."""
        module = pod.name if pod.name == "gateway" else f"services.{pod.name}"
        # The image adds the paths of Python and the code.
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": CODE, **self.environment(pod.name, pod.number)}
        home = self.data / str(pod)
        home.mkdir(exist_ok=True)
        if names := self.names(pod.name):
            self.authority.issue(Path(env["HANSEI_TLS_CERTIFICATE"]).parent, *names, f"{pod.name}.localhost")
        with (self.data / f"{pod}.log").open("ab") as log:
            self.processes[pod] = self.network.start_pod(pod, ModuleCommand(module, str(home), env), log)

    def wait_until_started(self, pod: Pod) -> None:
        """Wait until the startup probe succeeds, as long as the kubelet would; fail with the pod's log."""
        probe = container(self.manifests.workloads()[pod.name])["startupProbe"]
        seconds = probe["periodSeconds"] * probe["failureThreshold"]
        check = probe["grpc"]
        with grpc.insecure_channel(self.network.test_address(pod, check["port"]), options=LOOKING) as channel:
            request = health_pb2.HealthCheckRequest(service=check.get("service", ""))
            watch = health_pb2_grpc.HealthStub(channel).Watch(request, timeout=seconds, wait_for_ready=True)
            try:
                next(update for update in watch if update.status == health_pb2.HealthCheckResponse.SERVING)
            except (grpc.RpcError, StopIteration) as error:
                raise AssertionError(f"{pod} did not start: {error}\n{self.log(pod)[-4000:]}") from error
            watch.cancel()

    def available(self, pod: Pod) -> None:
        """Wait until the pod has been ready for the `minReadySeconds` of its controller."""
        self.wait_until_started(pod)
        time.sleep(self.manifests.workloads()[pod.name]["spec"]["minReadySeconds"])

    def terminate(self, pod: Pod) -> int:
        """End a pod as the kubelet does after its preStop; return its exit status or raise `TimeoutExpired`."""
        workload = self.manifests.workloads()[pod.name]
        pause = container(workload)["lifecycle"]["preStop"]["sleep"]["seconds"]
        process = self.processes.pop(pod)
        process.terminate()
        return process.wait(spec(workload)["terminationGracePeriodSeconds"] - pause)

    def kill(self) -> None:
        """Kill the pods that still run."""
        for process in self.processes.values():
            process.kill()
            process.wait()


@contextmanager
def cluster(
    manifests: Manifests,
    postgres: PostgresServer,
    data: Path,
    replicas: Mapping[str, int] | None = None,
    extra: Mapping[str, Mapping[str, str]] | None = None,
    network: PodNetwork | None = None,
) -> Iterator[Cluster]:
    """Start all services of an overlay together, as on a cluster, and wait until each startup probe succeeds."""
    _make_databases(manifests, postgres)
    made = Cluster(manifests, data, postgres, replicas or {}, network or Loopback(postgres), extra=extra or {})
    pods = [pod for name in SERVICES for pod in made.pods(name)]
    try:
        for pod in pods:
            made.start(pod)
        for pod in pods:
            made.wait_until_started(pod)
        yield made
    finally:
        made.kill()


def _make_databases(manifests: Manifests, postgres: PostgresServer) -> None:
    workload = manifests.workloads()["postgres"]
    (mounted,) = (volume["configMap"]["name"] for volume in spec(workload)["volumes"] if "configMap" in volume)
    subprocess.run(
        [*postgres.within, str(postgres.programs / "psql"), "-q", "-X", postgres.url],
        input=manifests.manifest("ConfigMap", mounted)["data"]["databases.sql"],
        env={**os.environ, **manifests.environment(container(workload))},
        text=True,
        check=True,
        timeout=60,
    )
