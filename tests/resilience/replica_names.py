"""Three replicas behind one name of a DNS server of its own, as pods of a StatefulSet behind a headless service.

`python -m tests.resilience.replica_names`, in a mount namespace whose `/etc/resolv.conf` names 127.0.0.1. It prints as
JSON which dataset reached which replica, before and after a replica returned with another address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import struct
from contextlib import AsyncExitStack
from typing import Any

import uvloop

from chassis import Peers, replicas, serve
from chassis.tests.probe import Probe, pb, policies, service, stub

HOST = "search.hansei.svc"
A, PTR = 1, 12
DATASETS = [f"d{number}" for number in range(30)]


class NameServer(asyncio.DatagramProtocol):
    """Answers for `HOST`, with the addresses in `pods`, and for the names of these addresses."""

    def __init__(self, pods: dict[str, str]) -> None:
        self.pods = pods

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, query: bytes, sender: Any) -> None:
        end = query.index(b"\0", 12) + 1
        labels, position = [], 12
        while query[position]:
            labels.append(query[position + 1 : position + 1 + query[position]].decode())
            position += 1 + query[position]
        name, (kind,) = ".".join(labels), struct.unpack("!H", query[end : end + 2])
        answers = self._find(name, kind)
        head = query[:2] + struct.pack("!HHHHH", 0x8580 if answers is not None else 0x8583, 1, len(answers or ()), 0, 0)
        records = b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(data)) + data for data in answers or ())
        self.transport.sendto(head + query[12 : end + 4] + records, sender)

    def _find(self, name: str, kind: int) -> list[bytes] | None:
        """Return the data of the records; None if there is no such name."""
        if name == HOST:
            return [ipaddress.ip_address(address).packed for address in self.pods] if kind == A else []
        for address, pod in self.pods.items():
            if name == ipaddress.ip_address(address).reverse_pointer:
                labels = (pod, *HOST.split("."))
                return (
                    [b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"] if kind == PTR else []
                )
        return None


async def _run() -> None:
    replicas.RESOLVE_SECONDS = 0.1
    async with AsyncExitStack() as stack:
        probes = {f"127.0.0.{number}": Probe() for number in (2, 3, 4, 5)}
        port = 0
        for address, probe in probes.items():
            running = await stack.enter_async_context(serve(service(probe), f"{address}:{port}"))
            port = int(running.address.rpartition(":")[2])
        pods = {"127.0.0.2": "search-0", "127.0.0.3": "search-1", "127.0.0.4": "search-2"}
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: NameServer(pods), ("127.0.0.1", 53))
        peers = Peers({"probe": f"{HOST}:{port}"}, policies=policies(), routed=True)
        stack.push_async_callback(peers.close)
        caller, found = stub(peers), peers.get_channel("probe").replicas
        assert found is not None

        async def ask_each_dataset() -> dict[str, str]:
            reached = {}
            for dataset in DATASETS:
                before = {address: probe.calls for address, probe in probes.items()}
                await caller.Echo(pb.EchoRequest(dataset=dataset))
                (reached[dataset],) = [address for address, probe in probes.items() if probe.calls > before[address]]
            return reached

        def are_connected() -> bool:
            """Return whether the caller is connected to the pods, and to no other address."""
            targets = {item.address.target for item in found._replicas}
            ready = all(item.get_state() is replicas._READY for item in found._replicas)
            return ready and targets == {f"ipv4:{address}:{port}" for address in pods}

        async def wait_for_connections() -> None:
            async with asyncio.timeout(30):
                while not are_connected():  # noqa: ASYNC110  nothing tells when a connection becomes ready
                    await asyncio.sleep(0.05)

        await wait_for_connections()
        names, first = found.names, await ask_each_dataset()
        del pods["127.0.0.3"]
        pods["127.0.0.5"] = "search-1"
        await wait_for_connections()
        print(json.dumps({"names": names, "first": first, "second": await ask_each_dataset()}))


if __name__ == "__main__":
    uvloop.run(_run())
