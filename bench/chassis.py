"""The echo RPC of the chassis against a bare `grpc.aio` server with the same handler.

`python -m bench.chassis` writes `bench/results/chassis.json` and the table in `bench/README.md`. Both servers run in
processes of their own on uvloop, with the default settings, and are called in turns by the same caller: 4 kB each way,
with a deadline and a correlation id. Each round gives one ratio for each server; the table has their medians.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc
import uvloop

from bench.load import Measurement, measure
from bench.report import machine, write
from chassis.tests import probe
from tests.support import systems

ROUNDS = 40
CALLERS = (1, 8)
CALLS = 600
METADATA = (("x-request-id", "00112233445566778899aabbccddeeff"),)
CHASSIS = ("-m", "chassis.tests.probe")
VARIANTS = {
    "chassis": {},
    "chassis, metrics served": {"HANSEI_METRICS_ADDRESS": "127.0.0.1:0"},
}


class BareProbe:
    """The handler of the probe, with nothing before it."""

    async def Echo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return probe.pb.EchoResponse(text=request.text)


async def _serve_bare(address: str) -> None:
    server: Any = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        BareProbe().Echo, probe.pb.EchoRequest.FromString, probe.pb.EchoResponse.SerializeToString
    )
    server.add_registered_method_handlers(probe.SERVICE, {"Echo": handler})
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


@contextmanager
def _process(command: Sequence[str], address: str, env: dict[str, str]) -> Iterator[tuple[str, int]]:
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=systems.ROOT,
        env=os.environ | {"HANSEI_LISTEN_ADDRESS": address} | env,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(30)


def main(rounds: int = ROUNDS) -> None:
    """Measure and write."""
    measured = uvloop.run(_measure(rounds))
    rows = [_row(name, callers, measured) for callers in CALLERS for name in ("bare grpc.aio", *VARIANTS)]
    write("chassis", {"machine": machine(), "rounds": rounds, "calls_a_round": CALLS, "rows": rows})


Rounds = dict[tuple[str, int], list[Measurement]]


async def _measure(rounds: int) -> Rounds:
    found: Rounds = {}
    with ExitStack() as stack:
        address = f"127.0.0.1:{systems.free_port()}"
        bare = ("-m", "bench.chassis", "bare", address)
        servers = {"bare grpc.aio": stack.enter_context(_process(bare, address, {}))}
        for name, env in VARIANTS.items():
            address = f"127.0.0.1:{systems.free_port()}"
            servers[name] = stack.enter_context(_process(CHASSIS, address, env))
        request = probe.pb.EchoRequest(text="x" * 4_000)
        channels = {name: grpc.aio.insecure_channel(address) for name, (address, _) in servers.items()}
        for round_ in range(rounds):
            order = list(servers) if round_ % 2 else list(reversed(servers))
            for callers in CALLERS:
                for name in order:
                    await channels[name].channel_ready()
                    echo: Any = probe.rpc.ProbeServiceStub(channels[name]).Echo
                    found.setdefault((name, callers), []).append(
                        await measure(
                            name,
                            lambda _, echo=echo: echo(request, timeout=30, metadata=METADATA),  # type: ignore[misc]
                            pid=servers[name][1],
                            callers=callers,
                            calls=CALLS,
                        )
                    )
        for channel in channels.values():
            await channel.close(None)
    return found


def _row(name: str, callers: int, measured: Rounds) -> dict[str, Any]:
    bare, ours = measured["bare grpc.aio", callers], measured[name, callers]
    rates = sorted(our.per_second / its.per_second for our, its in zip(ours, bare, strict=True))
    cpus = sorted(its.cpu_ms / our.cpu_ms for our, its in zip(ours, bare, strict=True))
    return {
        "server": name,
        "callers": callers,
        "per_second": round(statistics.median(measurement.per_second for measurement in ours)),
        "cpu_us": round(statistics.median(measurement.cpu_ms for measurement in ours) * 1000),
        **_spread("rate_to_bare", rates),
        **_spread("cpu_to_bare", cpus),
    }


def _spread(name: str, ordered: list[float]) -> dict[str, float]:
    def quantile(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    return {name: round(statistics.median(ordered), 3), f"{name}_p10": quantile(0.1), f"{name}_p90": quantile(0.9)}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["bare", address]:
            uvloop.run(_serve_bare(address))
        case [rounds]:
            main(int(rounds))
        case _:
            main()
