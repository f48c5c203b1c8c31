"""Offline Reflect and Learn as multiples of the echo RPC, and the cost of a step of a long run.

`python -m bench.reflect` serves the echo, a reflector, and everything in one process, each in a process of its own, and
calls them in one run: `to_echo` is the median time of a call against that of an echo of 4 kB at one caller,
`cpu_to_echo` the CPU time of the serving process. A run has a question, calls with results of 300 characters, every
tenth of which fails and is repaired, and an answer.

Then, in this process, trajectories of up to 5,000 steps, and of results of 4,000 characters, which make 10 MB:
`us_per_step` is the CPU time of one reflection a step, `peak_kb_per_step` the most memory it takes beside the
trajectory itself, `to_500` the time a step against that of 500 steps with results of that size.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import uvloop

from bench.load import Measurement, measure, wait_until_idle
from bench.report import machine, write
from chassis.tests import probe
from hansei.gateway.v1 import gateway_service_pb2, gateway_service_pb2_grpc
from hansei.reflector.v1 import reflector_service_pb2, reflector_service_pb2_grpc, trajectory_pb2
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Trajectory
from services.reflector.rpc.convert import parse_trajectory
from services.reflector.usecases.reflect_offline import reflect_by_rules
from tests.support import systems

DATASET = "bench"
STEPS = 30
CALLS = {"echo": 2_000, "reflect": 600, "learn": 300}
LENGTHS = (30, 100, 500, 1_000, 2_500, 5_000)
LONG_LENGTHS = (500, 5_000)
RESULT_CHARS = 300
LONG_RESULT_CHARS = 4_000
"""Characters of each result in the trajectory of 10 MB."""
TIMES = 5


def build_recorded_trajectory(steps: int, chars: int = RESULT_CHARS, first: int = 0) -> trajectory_pb2.Trajectory:
    """Return a failed trajectory of this many steps; its calls and results are numbered from `first` on."""
    log = [trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_USER, content="Sum up all open orders")]
    while len(log) < steps - 1:
        number = first + len(log) // 2
        failed = len(log) // 2 % 10 == 3
        call = trajectory_pb2.ToolCall(
            id=str(number), name="http", arguments=f'{{"method": "GET", "path": "/orders?page={number // 2}"}}'
        )
        log.append(trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_ASSISTANT, tool_calls=[call]))
        body = (
            f"HTTP 429 Too Many Requests ({number})"
            if failed
            else f'{{"orders": [{{"id": "o-{number}", "eur": {number}}}]}}'
        )
        role = trajectory_pb2.STEP_ROLE_TOOL
        log.append(trajectory_pb2.Step(role=role, tool_call_id=str(number), content=body.ljust(chars)))
    log = log[: steps - 1]
    log.append(trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_ASSISTANT, content="All orders come to 4711 EUR."))
    return trajectory_pb2.Trajectory(
        dataset=DATASET, query="Sum up all open orders", generated_answer="4711 EUR", steps=log,
        status=trajectory_pb2.TRAJECTORY_STATUS_FAILURE, signal=trajectory_pb2.SIGNAL_STRENGTH_REWARD,
    )  # fmt: skip


def main() -> None:
    """Measure and write."""
    load = os.getloadavg()[0]
    measured = uvloop.run(_measure_calls())
    echo = measured[0]
    calls = [
        {
            "what": method.what,
            "p50_ms": round(method.p50_ms, 3),
            "cpu_ms": round(method.cpu_ms, 3),
            "to_echo": round(method.p50_ms / echo.p50_ms, 2),
            "cpu_to_echo": round(method.cpu_ms / echo.cpu_ms, 2),
        }
        for method in measured
    ]
    write("reflect-calls", {"machine": machine(), "load_before": load, "rows": calls})
    write("reflect-length", {"machine": machine(), "load_before": load, "rows": list(_lengths())})


async def _measure_calls() -> list[Measurement]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data = Path(folder)
        quiet = {"HANSEI_LOG_LEVEL": "ERROR"}
        echo, reflector = (
            stack.enter_context(_process(module, data)) for module in ("chassis.tests.probe", "services.reflector")
        )
        system = stack.enter_context(systems.one_process(data, **quiet))
        wait_until_idle(system.processes["allinone"].pid)
        return [
            await _echo(*echo),
            await _reflect(*reflector),
            await _learn(system.address, system.processes["allinone"].pid),
        ]


@contextmanager
def _process(module: str, data: Path) -> Iterator[tuple[str, int]]:
    """Return a service in a process of its own: its address and its process id."""
    address = f"127.0.0.1:{systems.free_port()}"
    own = {"HANSEI_LISTEN_ADDRESS": address, "HANSEI_LOG_LEVEL": "ERROR", "LLM_PROVIDER": "offline"}
    process = subprocess.Popen([sys.executable, "-m", module], cwd=systems.ROOT, env=os.environ | own)
    try:
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(30)


async def _echo(address: str, pid: int) -> Measurement:
    async with grpc.aio.insecure_channel(address) as channel:
        await channel.channel_ready()
        stub: Any = probe.rpc.ProbeServiceStub(channel)
        request = probe.pb.EchoRequest(text="x" * 4_000)
        return await measure("echo", lambda _: stub.Echo(request), pid=pid, callers=1, calls=CALLS["echo"])


async def _reflect(address: str, pid: int) -> Measurement:
    async with grpc.aio.insecure_channel(address) as channel:
        await channel.channel_ready()
        stub: Any = reflector_service_pb2_grpc.ReflectorServiceStub(channel)
        request = reflector_service_pb2.ReflectRequest(dataset=DATASET, trajectory=build_recorded_trajectory(STEPS))
        what = f"Reflect, {STEPS} steps"
        return await measure(what, lambda _: stub.Reflect(request), pid=pid, callers=1, calls=CALLS["reflect"])


async def _learn(address: str, pid: int) -> Measurement:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = gateway_service_pb2_grpc.GatewayServiceStub(channel)

        numbers = count(step=STEPS)

        async def learn(_: int) -> object:
            # Other texts each time, as they are in practice: a cache of texts must not help.
            trajectory = build_recorded_trajectory(STEPS, first=next(numbers))
            trajectory.id = uuid.uuid4().hex
            request = gateway_service_pb2.LearnRequest(
                request_id=str(uuid.uuid4()), dataset=DATASET, trajectory=trajectory
            )
            response = await stub.Learn(request)
            assert response.curation.saved, response.curation.error
            return response

        return await measure(f"Learn, {STEPS} steps", learn, pid=pid, callers=1, calls=CALLS["learn"])


def _lengths() -> Iterator[dict[str, Any]]:
    """Yield the costs of one reflection by length, without parsing the trajectory."""
    for chars, lengths in ((RESULT_CHARS, LENGTHS), (LONG_RESULT_CHARS, LONG_LENGTHS)):
        trajectories = [parse_trajectory(build_recorded_trajectory(steps, chars), "trajectory") for steps in lengths]
        seconds = [_seconds(trajectory) / len(trajectory.steps) for trajectory in trajectories]
        for trajectory, step_seconds in zip(trajectories, seconds, strict=True):
            yield {
                "steps": len(trajectory.steps),
                "megabytes": round(sum(len(step.content) for step in trajectory.steps) / 1e6, 2),
                "us_per_step": round(step_seconds * 1e6, 1),
                "peak_kb_per_step": round(_peak_bytes(trajectory) / 1024 / len(trajectory.steps), 2),
                "to_500": round(step_seconds / seconds[lengths.index(500)], 2),
            }


def _seconds(trajectory: Trajectory) -> float:
    """Return the shortest of several times: other processes only add to it."""
    best = float("inf")
    for _ in range(TIMES):
        gc.collect()
        began = time.process_time()
        reflect_by_rules(ReflectionRequest(trajectory, DATASET))
        best = min(best, time.process_time() - began)
    return best


def _peak_bytes(trajectory: Trajectory) -> int:
    gc.collect()
    tracemalloc.start()
    reflect_by_rules(ReflectionRequest(trajectory, DATASET))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


if __name__ == "__main__":
    main()
