"""The replicas of a peer, and which of them serve a call about one resource, such as a dataset.

Rendezvous hashing ranks the replicas for each key; the first two are its owners, so that every caller chooses the same
ones, and a replica that comes or goes changes only its own share. The first owner serves while it is healthy and not
loaded beyond its share, else the second one. Every replica can answer every call, so a caller with an older list is
served as well.

The names of a headless service's addresses are resolved again and again; `ipv4:` and `ipv6:` targets are static lists.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import grpc
from opentelemetry.metrics import CallbackOptions, Observation

from chassis.logging import get_logger
from chassis.telemetry import meter

if TYPE_CHECKING:
    from chassis.connection import Connection

log = get_logger("hansei.replicas")

RESOLVE_SECONDS = 5.0
SUSPENDED_SECONDS = 5.0
"""Seconds for which a replica that did not answer gets no routed calls."""
FREE_CALLS = 4
LOAD_FACTOR = 1.25
"""An owner serves FREE_CALLS calls at once, and more up to this multiple of the mean of all replicas."""
_CACHED_KEYS = 50_000
_REVERSE_SECONDS = 2.0
_DNS_SCHEMES = ("dns:///", "dns:")
_LIST_SCHEMES = ("ipv4:", "ipv6:")

_READY, _CONNECTING = grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.CONNECTING
_IDLE = grpc.ChannelConnectivity.IDLE

# Counted here and collected with the metrics: a counter of OpenTelemetry takes longer than the choice.
_counts: Counter[tuple[str, str]] = Counter()
_all_replicas: WeakSet[Replicas] = WeakSet()

Lookup = Callable[[str, int], Awaitable["list[ReplicaAddress]"]]


@dataclass(frozen=True, slots=True)
class ReplicaAddress:
    """An address of a replica as a gRPC target, and a name that it has in every process."""

    name: str
    target: str


class Replica:
    """A connection to one replica, the methods bound to it, and the calls in flight on it."""

    __slots__ = ("address", "answers", "connection", "in_flight", "is_suspended", "methods")

    def __init__(self, address: ReplicaAddress, connection: Connection) -> None:
        self.address = address
        self.connection = connection
        self.methods: dict[object, Any] = {}
        self.in_flight = 0
        self.answers = 0
        self.is_suspended = False

    def get_state(self) -> grpc.ChannelConnectivity | None:
        """Return the state of the connection, which is ready only while the replica is healthy; None if suspended."""
        return None if self.is_suspended else self.connection.channel.get_state(True)

    def suspend(self) -> None:
        """Route no calls to this replica for some seconds: it did not answer."""
        if not self.is_suspended:
            self.is_suspended = True
            asyncio.get_running_loop().call_later(SUSPENDED_SECONDS, self._resume)

    def _resume(self) -> None:
        self.is_suspended = False


class Replicas:
    """The replicas behind the address of a peer. Needs a running loop."""

    def __init__(
        self, peer: str, address: str, connect: Callable[[ReplicaAddress], Connection], lookup: Lookup | None = None
    ) -> None:
        self.peer = peer
        self._connect = connect
        self._replicas: list[Replica] = []
        self._owners: dict[str, tuple[Replica, Replica]] = {}
        self._calls_in_flight = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._resolving: asyncio.Task[None] | None = None
        static = parse_static_list(address)
        if static is not None:
            self._replace(static)
        else:
            resolve = _resolve_forever(peer, address, lookup or NameLookup(), self._replace)
            self._resolving = asyncio.get_running_loop().create_task(resolve, name=f"resolve {peer}")
        _all_replicas.add(self)

    @property
    def names(self) -> list[str]:
        """Return the names of the replicas."""
        return [replica.address.name for replica in self._replicas]

    def choose(self, key: str) -> tuple[Replica, ...]:
        """Return the owners of a key that can serve a call, the better one first.

        An owner that is still connecting counts if no owner is ready. Nothing is returned if there is one replica only.
        """
        owners = self._owners.get(key)
        if owners is None:
            if len(self._replicas) < 2:
                return ()
            owners = self._rank(key)
        first, second = owners
        state = first.get_state()
        if state is _READY and first.in_flight <= self._load_limit():
            return owners
        second_state = second.get_state()
        if state is _READY and second_state is _READY:
            return owners if first.in_flight <= second.in_flight else (second, first)
        states = ((first, state), (second, second_state))
        ready = tuple(owner for owner, state in states if state is _READY)
        return ready or tuple(owner for owner, state in states if state is _CONNECTING or state is _IDLE)

    def record_call_start(self, replica: Replica) -> None:
        """Count a call to a replica as in flight."""
        replica.in_flight += 1
        self._calls_in_flight += 1

    def record_call_end(self, replica: Replica) -> None:
        """Count a call to a replica as ended."""
        replica.in_flight -= 1
        self._calls_in_flight -= 1

    def count(self, key: str, replica: Replica | None) -> None:
        """Count a call that an owner of the routing key serves, or any replica (None), in the metrics."""
        role = "any" if replica is None else "first" if self._owners.get(key, (None,))[0] is replica else "second"
        _counts[self.peer, role] += 1

    async def close(self) -> None:
        """Close all connections."""
        if self._resolving is not None:
            self._resolving.cancel()
            await asyncio.gather(self._resolving, return_exceptions=True)
        for closing in list(self._closing):
            closing.cancel()
        replicas, self._replicas, self._owners = self._replicas, [], {}
        await asyncio.gather(*(replica.connection.close(None) for replica in replicas))

    def _load_limit(self) -> float:
        """Return the calls in flight up to which a replica is not loaded beyond its share."""
        return FREE_CALLS + LOAD_FACTOR * self._calls_in_flight / len(self._replicas)

    def _rank(self, key: str) -> tuple[Replica, Replica]:
        if len(self._owners) >= _CACHED_KEYS:
            self._owners.clear()
        by_name = {replica.address.name: replica for replica in self._replicas}
        first, second, *_ = rank_names(key, by_name)
        owners = self._owners[key] = by_name[first], by_name[second]
        return owners

    def _replace(self, addresses: Sequence[ReplicaAddress]) -> None:
        """Connect to new replicas, and close the connections to those that are gone, after their calls."""
        if len(addresses) < 2:
            addresses = ()  # one replica serves everything, over the ordinary channel
        present = {replica.address: replica for replica in self._replicas}
        if present.keys() == set(addresses):
            return
        self._replicas = [
            present.pop(address) if address in present else Replica(address, self._connect(address))
            for address in addresses
        ]
        self._owners = {}
        for replica in self._replicas:
            replica.connection.channel.get_state(True)
        for gone in present.values():
            closing = asyncio.ensure_future(gone.connection.retire())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        log.info("replicas of a peer changed", peer=self.peer, replicas=self.names)


class OwnShare:
    """The keys whose first owner is this process, one of the replicas of a service.

    Callers choose among the same addresses. `run` resolves them again and again. A process that is not among them, or
    is the only one, owns every key; so does one that does not know its target (``own_target`` is empty).
    """

    def __init__(self, service: str, address: str, own_target: str, lookup: Lookup | None = None) -> None:
        self._service = service
        self._address = address
        self._own_target = own_target
        self._lookup = lookup
        self._own_name = ""
        self._names: list[str] = []

    async def run(self) -> None:
        """Follow the addresses of the replicas without end, or read them once if they are a static list."""
        static = parse_static_list(self._address) if self._own_target else []
        if static is not None:
            self._replace(static)
        else:
            await _resolve_forever(self._service, self._address, self._lookup or NameLookup(), self._replace)

    def is_first_owner(self, key: str) -> bool:
        """Return whether callers send calls about a key to this process before all others."""
        return not self._own_name or rank_names(key, self._names)[0] == self._own_name

    def _replace(self, addresses: Sequence[ReplicaAddress]) -> None:
        names = [address.name for address in addresses]
        if names != self._names:
            own = [address.name for address in addresses if address.target == self._own_target]
            self._names, self._own_name = names, own[0] if own and len(names) > 1 else ""
            log.info("replicas of this service changed", service=self._service, replicas=names, own=self._own_name)


async def _resolve_forever(
    peer: str, address: str, lookup: Lookup, replace: Callable[[Sequence[ReplicaAddress]], None]
) -> None:
    """Pass the addresses behind a name to `replace`, again and again."""
    host, port = split_host_and_port(address)
    failed = False
    while True:
        try:
            replace(await lookup(host, port))
            failed = False
        except (OSError, UnicodeError) as error:  # UnicodeError: the host cannot be a name of DNS
            if not failed:
                log.warning(
                    "resolving replicas failed; using the last known addresses",
                    peer=peer,
                    host=host,
                    error=str(error),
                )
            failed = True
        await asyncio.sleep(RESOLVE_SECONDS)


def rank_names(key: str, names: Iterable[str]) -> list[str]:
    """Return the names by rendezvous hashing: the highest hash of name and key first."""

    def weigh(name: str) -> bytes:
        return hashlib.blake2b(f"{name}\0{key}".encode(), digest_size=8).digest()

    return sorted(names, key=weigh, reverse=True)


def parse_static_list(address: str) -> list[ReplicaAddress] | None:
    """Return the addresses of an `ipv4:` or `ipv6:` target, none of an address without DNS names; None otherwise."""
    for scheme in _LIST_SCHEMES:
        if address.startswith(scheme):
            return [ReplicaAddress(item, scheme + item) for item in address.removeprefix(scheme).split(",")]
    host, port = split_host_and_port(address)
    if ":" in address.removeprefix("dns:").rsplit(":", 1)[0] or not port:
        return []  # another scheme, or an IPv6 address
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return None
    return []


def split_host_and_port(address: str) -> tuple[str, int]:
    """Return the host and the port of `host:port` with or without the scheme of DNS; port 0 if it has none."""
    for scheme in _DNS_SCHEMES:
        address = address.removeprefix(scheme)
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if port.isdecimal() else 0


class NameLookup:
    """Resolves a host to its addresses, and each address to the first label of its own name, if it has one.

    The pods of a StatefulSet behind a headless service have such names; so a pod that returns with another address
    owns what it owned before. Of a host with addresses of both families only IPv4 is used: each replica counts once.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    async def __call__(self, host: str, port: int) -> list[ReplicaAddress]:
        """Return the addresses, sorted. Raises `OSError`, and `UnicodeError` for a host that cannot be a name."""
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        families = {info[0] for info in infos}
        family = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
        addresses = sorted({str(info[4][0]) for info in infos if info[0] is family})
        cached_names = {address: self._names[address] for address in addresses if address in self._names}
        missing = [address for address in addresses if address not in cached_names]
        found = await asyncio.gather(*(_find_name(address, port) for address in missing))
        self._names = cached_names | dict(zip(missing, found, strict=True))
        return name_addresses(self._names, port)


async def _find_name(address: str, port: int) -> str:
    flags = socket.NI_NAMEREQD | socket.NI_NUMERICSERV
    try:
        async with asyncio.timeout(_REVERSE_SECONDS):
            name, _ = await asyncio.get_running_loop().getnameinfo((address, port), flags)
    except (OSError, TimeoutError):
        return address
    return name.partition(".")[0]


def name_addresses(names: Mapping[str, str], port: int) -> list[ReplicaAddress]:
    """Return the addresses with these names; addresses that share a name are named by themselves."""
    shared = Counter(names.values())
    return [
        ReplicaAddress(f"{name if shared[name] == 1 else address}:{port}", build_address_target(address, port))
        for address, name in names.items()
    ]


def build_address_target(address: str, port: int) -> str:
    """Return the gRPC target of an IP address and a port."""
    return f"ipv6:[{address}]:{port}" if ":" in address else f"ipv4:{address}:{port}"


def _observe_calls(_: CallbackOptions) -> Iterable[Observation]:
    for (peer, role), count in list(_counts.items()):
        yield Observation(count, {"peer": peer, "replica": role})


def _observe_replicas(_: CallbackOptions) -> Iterable[Observation]:
    for replicas in list(_all_replicas):
        yield Observation(len(replicas.names), {"peer": replicas.peer})


meter.create_observable_counter(
    "hansei.routing.calls",
    [_observe_calls],
    unit="{call}",
    description="Calls about one resource by `peer` and by the `replica` that served: first or second owner, or any.",
)
meter.create_observable_gauge(
    "hansei.routing.replicas",
    [_observe_replicas],
    unit="{replica}",
    description="Replicas of a peer among which calls are routed; 0 if there is only one.",
)
