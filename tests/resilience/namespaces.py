"""Hosts of a network of their own, and what may happen to the packets between them.

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
from dataclasses import dataclass, field
from typing import IO

import pytest

from tests.deploy.cluster import Pod
from tests.support.processes import ModuleCommand
from tests.support.systems import ROOT

OUTSIDE = "outside"
PROGRAMS = ("ip", "nft", "nsenter", "setpriv", "unshare")
SUBNET = "192.0.2"


@dataclass(frozen=True)
class Host:
    """A network namespace, and one of processes: when its first process ends, so do all that entered both."""

    address: str
    first: subprocess.Popen[bytes]

    def run(self, *command: str, given: str = "") -> str:
        """What a command of the system says when it is run there."""
        done = subprocess.run(
            [*self.within("net"), *command], input=given, stdout=subprocess.PIPE, text=True, check=True, timeout=30
        )
        return done.stdout

    def within(self, *kinds: str) -> list[str]:
        """What runs a command in namespaces of this host."""
        child = _children(self.first.pid)[0]
        return ["nsenter", *(f"--{kind}=/proc/{child}/ns/{kind}" for kind in kinds)]


@dataclass
class Network:
    """The hosts by name: a `Place` for the pods of a cluster."""

    hosts: dict[str, Host]
    _forwards: dict[str, tuple[str, subprocess.Popen[bytes]]] = field(default_factory=dict)

    def listening(self, _: Pod, port: int) -> str:
        """Each has the ports of its container to itself."""
        return f"0.0.0.0:{port}"

    def seen(self, pod: Pod, port: int) -> str:
        """By its address."""
        return self.at(pod.name, port)

    def at(self, name: str, port: int) -> str:
        """`host:port` of a host, as others see it."""
        return f"{self.hosts[name].address}:{port}"

    def reached(self, pod: Pod, port: int) -> str:
        """Through a relay on the host outside."""
        return self.forward(self.at(pod.name, port))

    def forward(self, target: str) -> str:
        """An address on this machine's loopback that leads to one of this network."""
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
        return subprocess.Popen(self.on(name, *command), cwd=ROOT, pass_fds=fds)

    def begin(self, pod: Pod, command: ModuleCommand, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """The pod's host runs it; it ends with the thread that starts it at the latest."""
        arguments = self.on(pod.name, sys.executable, "-m", command.module)
        return subprocess.Popen(arguments, cwd=command.folder, env=command.environment, stdout=log, stderr=log)

    def on(self, name: str, *command: str) -> list[str]:
        """A command as a host runs it."""
        return ["setpriv", "--pdeathsig", "KILL", *self.hosts[name].within("net"), *command]

    def cut(self, one: str, other: str) -> None:
        """From now on no packet passes between two hosts, and nobody is told."""
        for here, there in ((one, other), (other, one)):
            self._rule(here, f"ip saddr {self.hosts[there].address} counter drop")

    def lose(self, percent: int) -> None:
        """From now on so many of a hundred packets between any two hosts get lost."""
        for name in self.hosts:
            self._rule(name, f"iifname eth0 numgen random mod 100 < {percent} counter drop")

    def _rule(self, name: str, rule: str) -> None:
        self.hosts[name].run("nft", "-f", "-", given=f"add rule inet faults arriving {rule}\n")

    def heal(self) -> None:
        """All packets pass again."""
        for host in self.hosts.values():
            host.run("nft", "flush", "chain", "inet", "faults", "arriving")

    def dropped(self, name: str) -> int:
        """How many packets a host has not taken since it was last healed."""
        told = json.loads(self.hosts[name].run("nft", "--json", "list", "chain", "inet", "faults", "arriving"))
        rules = (each["rule"]["expr"] for each in told["nftables"] if "rule" in each)
        return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)

    def close(self) -> None:
        """End the relays."""
        for _, process in self._forwards.values():
            process.kill()
            process.wait()


@contextmanager
def network(*names: str) -> Iterator[Network]:
    """A network of these hosts and one outside; skips the test, loudly, where there can be none, and fails it in CI."""
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
            first.communicate()  # the end of its input is its end


def _require() -> None:
    """Whether hosts can be made at all is asked of the system by making one."""
    missing = [f"{each} is not installed" for each in PROGRAMS if shutil.which(each) is None]
    if not missing:
        command = ["unshare", "--net", "--pid", "--fork", "nft", "add", "table", "inet", "faults"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        missing = [asked.stderr.strip()] if asked.returncode else []
    if missing:
        said = f"hosts of their own need network namespaces, nft and root: {'; '.join(missing)}"
        if os.environ.get("HANSEI_REQUIRE_NETNS"):
            pytest.fail(said)
        pytest.skip(said)


def _host(address: str, firsts: list[subprocess.Popen[bytes]]) -> Host:
    """A host that is up, on no switch yet; nothing is filtered on it."""
    command = ["unshare", "--net", "--pid", "--fork", "sh", "-c", "echo; exec cat"]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    firsts.append(first)
    assert first.stdout is not None
    assert first.stdout.readline(), "its namespaces exist"
    host = Host(address, first)
    host.run("ip", "link", "set", "lo", "up")
    chain = "add chain inet faults arriving { type filter hook input priority 0; }\n"
    host.run("nft", "-f", "-", given=f"add table inet faults\n{chain}")
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
