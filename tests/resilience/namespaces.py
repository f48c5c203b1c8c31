"""A network of hosts, and faults of the packets between them.

Each host is a network namespace, all are on one switch (a bridge in a namespace), with addresses that mean nothing
outside (TEST-NET-1). No namespace has a name: each lives as long as its first process, a `cat` that ends when this
process does, so nothing stays, however the tests end. This process itself is on no host; it reaches one as
`kubectl port-forward` would, through a relay that runs on the host `OUTSIDE`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO

import pytest

from tests.deploy.cluster import Pod
from tests.resilience import host_process
from tests.support.processes import ModuleCommand, Process, start
from tests.support.systems import ROOT

OUTSIDE = "outside"
PROGRAMS = ("ip", "nft", "nsenter", "setpriv", "unshare")
SUBNET = "192.0.2"


@dataclass(frozen=True)
class Host:
    """A network namespace, and one of processes: when its first process ends, so do all that entered both."""

    address: str
    first: subprocess.Popen[bytes]

    def run(self, *command: str, input_text: str = "") -> str:
        """Run a command on this host and return its output."""
        done = subprocess.run(
            [*self.namespace_command("net"), *command],
            input=input_text,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=30,
        )
        return done.stdout

    def namespace_command(self, *kinds: str) -> list[str]:
        """Return the prefix of a command that runs it in namespaces of this host."""
        return ["nsenter", *(f"--{kind}={self.namespace_file(kind)}" for kind in kinds)]

    def namespace_file(self, kind: str) -> str:
        """Return the file of a namespace of this host."""
        return f"/proc/{_children(self.first.pid)[0]}/ns/{kind}"


@dataclass
class Network:
    """The hosts by name, each of which runs one pod of a cluster."""

    hosts: dict[str, Host]
    _forwards: dict[str, tuple[str, subprocess.Popen[bytes]]] = field(default_factory=dict)

    def listen_address(self, _: Pod, port: int) -> str:
        """Return the address that a pod listens on: all ports of a host belong to its pod."""
        return f"0.0.0.0:{port}"

    def peer_address(self, pod: Pod, port: int) -> str:
        """Return `host:port` at which other pods reach a pod."""
        return self.address(pod.name, port)

    def address(self, name: str, port: int) -> str:
        """Return `host:port` of a host in the network."""
        return f"{self.hosts[name].address}:{port}"

    def test_address(self, pod: Pod, port: int) -> str:
        """Return `host:port` of a relay, through which the tests reach a pod."""
        return self.forward(self.address(pod.name, port))

    def forward(self, target: str) -> str:
        """Return an address on this machine's loopback from which a relay leads to one of this network."""
        if target not in self._forwards:
            with socket.create_server(("127.0.0.1", 0)) as listening:
                number = listening.fileno()
                process = self.start(
                    OUTSIDE, sys.executable, "-m", "tests.resilience.relay", str(number), target, fds=[number]
                )
                self._forwards[target] = (f"127.0.0.1:{listening.getsockname()[1]}", process)
        return self._forwards[target][0]

    def start(self, name: str, *command: str, fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
        """Start a program on a host; it ends with this process at the latest."""
        return subprocess.Popen(self.host_command(name, *command), cwd=ROOT, pass_fds=fds)

    def start_pod(self, pod: Pod, command: ModuleCommand, log: IO[bytes]) -> Process:
        """Start a process on the pod's host."""
        arguments = (self.hosts[pod.name].namespace_file("net"), command.module)
        return start(replace(command, module=host_process.__name__, arguments=arguments), log, log)

    def host_command(self, name: str, *command: str) -> list[str]:
        """Return the command that runs a command on a host."""
        return ["setpriv", "--pdeathsig", "KILL", *self.hosts[name].namespace_command("net"), *command]

    def disconnect(self, host: str, peer: str) -> None:
        """Drop all packets between two hosts, silently."""
        for here, there in ((host, peer), (peer, host)):
            self._rule(here, f"ip saddr {self.hosts[there].address} counter drop")

    def lose_packets(self, percent: int) -> None:
        """Drop a share of the packets between all hosts."""
        for name in self.hosts:
            self._rule(name, f"iifname eth0 numgen random mod 100 < {percent} counter drop")

    def _rule(self, name: str, rule: str) -> None:
        self.hosts[name].run("nft", "-f", "-", input_text=f"add rule inet faults arriving {rule}\n")

    def reconnect(self) -> None:
        """Let all packets pass again."""
        for host in self.hosts.values():
            host.run("nft", "flush", "chain", "inet", "faults", "arriving")

    def count_dropped_packets(self, name: str) -> int:
        """Return how many packets a host has dropped since the last `reconnect`."""
        listing = json.loads(self.hosts[name].run("nft", "--json", "list", "chain", "inet", "faults", "arriving"))
        rules = (entry["rule"]["expr"] for entry in listing["nftables"] if "rule" in entry)
        return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)

    def close(self) -> None:
        """End the relays."""
        for _, process in self._forwards.values():
            process.kill()
            process.wait()


@contextmanager
def network(*names: str) -> Iterator[Network]:
    """Create a network of these hosts and `OUTSIDE`; skip the test if that is not possible, or fail it in CI."""
    _require()
    firsts: list[subprocess.Popen[bytes]] = []
    try:
        switch = _host("", firsts)
        switch.run("ip", "link", "add", "switch", "type", "bridge")
        switch.run("ip", "link", "set", "switch", "up")
        made = Network({})
        for number, name in enumerate((*names, OUTSIDE), start=1):
            made.hosts[name] = _host(f"{SUBNET}.{number}", firsts)
            _plug(made.hosts[name], switch, number)
        try:
            yield made
        finally:
            made.close()
    finally:
        for first in firsts:
            first.communicate()  # the process ends when its input ends


def _require() -> None:
    """Skip the test, or fail it in CI, if this system cannot create a host."""
    missing = [f"{program} is not installed" for program in PROGRAMS if shutil.which(program) is None]
    if not missing:
        command = ["unshare", "--net", "--pid", "--fork", "nft", "add", "table", "inet", "faults"]
        attempt = subprocess.run(command, capture_output=True, text=True, check=False)
        missing = [attempt.stderr.strip()] if attempt.returncode else []
    if missing:
        message = f"hosts of their own need network namespaces, nft and root: {'; '.join(missing)}"
        if os.environ.get("HANSEI_REQUIRE_NETNS"):
            pytest.fail(message)
        pytest.skip(message)


def _host(address: str, firsts: list[subprocess.Popen[bytes]]) -> Host:
    """Create a host without a connection to a switch and without packet filters."""
    command = ["unshare", "--net", "--pid", "--fork", "sh", "-c", "echo; exec cat"]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    firsts.append(first)
    assert first.stdout is not None
    assert first.stdout.readline(), "its namespaces exist"
    host = Host(address, first)
    host.run("ip", "link", "set", "lo", "up")
    chain = "add chain inet faults arriving { type filter hook input priority 0; }\n"
    host.run("nft", "-f", "-", input_text=f"add table inet faults\n{chain}")
    return host


def _plug(host: Host, switch: Host, number: int) -> None:
    """Connect a host with the switch."""
    child = _children(host.first.pid)[0]
    switch.run("ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", child)
    switch.run("ip", "link", "set", f"to{number}", "master", "switch", "up")
    host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
    host.run("ip", "link", "set", "eth0", "up")


def _children(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return file.read().split()
