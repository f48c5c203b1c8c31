"""Compare `CheckCall` with the echo RPC: `python -m bench.guards.check_call`.

The dataset has 200 guards that hold for every tool, the session 200 earlier calls. Both RPCs are called in turn, so a
busy machine slows both, after the loops of search are loaded. Writes bench/results/check-call.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from bench.load import wait_until_idle
from bench.report import HERE, machine
from chassis.tests import probe
from hansei.evidence.v1 import guard_service_pb2 as pb
from hansei.evidence.v1 import guard_service_pb2_grpc
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from tests.support import systems

DATASET = "bench"
GUARDS = 200
EARLIER_CALLS = 200
WARM_UP = 50
ROUNDS = 400


def main() -> None:
    """Measure, print and write the results."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        echo = stack.enter_context(grpc.insecure_channel(stack.enter_context(_serve_echo())))
        system = stack.enter_context(systems.one_process(Path(folder), HANSEI_LOG_LEVEL="WARNING"))
        channel = stack.enter_context(grpc.insecure_channel(system.address))
        _add_guards(channel)
        _report_calls(channel)
        wait_until_idle(system.processes["allinone"].pid)
        times = _measure(echo, channel)
    p50 = {name: 1e3 * statistics.median(values[WARM_UP:]) for name, values in times.items()}
    results = {"p50_ms": p50, "ratio": p50["check_call"] / p50["echo"], "rounds": ROUNDS, "machine": machine()}
    text = json.dumps(results, indent=2)
    (HERE / "results" / "check-call.json").write_text(f"{text}\n", encoding="utf-8")
    print(text)


@contextmanager
def _serve_echo() -> Iterator[str]:
    address = f"127.0.0.1:{systems.free_port()}"
    env = os.environ | {"HANSEI_LISTEN_ADDRESS": address, "HANSEI_LOG_LEVEL": "WARNING"}
    process = subprocess.Popen([sys.executable, "-m", "chassis.tests.probe"], cwd=systems.ROOT, env=env)
    try:
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _add_guards(channel: grpc.Channel) -> None:
    playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
    for start in range(0, GUARDS, 50):
        deltas = [
            playbook_pb2.Delta(
                type=playbook_pb2.DELTA_TYPE_ADD,
                section="bench",
                content=f"Lesson number {number} is about case {number * 7919}.",
                target=playbook_pb2.Target(
                    expression=f"count(call.tool) > {number + 1000}", mode=playbook_pb2.TARGET_MODE_DENY, pinned=True
                ),
            )
            for number in range(start, start + 50)
        ]
        playbooks.ApplyDeltas(
            playbook_service_pb2.ApplyDeltasRequest(
                request_id=str(uuid.uuid4()), dataset=DATASET, deltas=deltas, reason="bench"
            )
        )


def _report_calls(channel: grpc.Channel) -> None:
    guards: Any = guard_service_pb2_grpc.GuardServiceStub(channel)
    for number in range(EARLIER_CALLS):
        call = pb.GuardedCall(tool=f"tool_{number % 40}", arguments=json.dumps({"id": f"A-{number}"}))
        guards.ReportCall(
            pb.ReportCallRequest(
                request_id=str(uuid.uuid4()), dataset=DATASET, session_id="s", call=call, result='{"status": "done"}'
            )
        )
    while len(guards.ListGuards(pb.ListGuardsRequest(dataset=DATASET, page_size=1000)).guards) < GUARDS:
        pass


def _measure(echo_channel: grpc.Channel, channel: grpc.Channel) -> dict[str, list[float]]:
    echo: Any = probe.rpc.ProbeServiceStub(echo_channel)
    guards: Any = guard_service_pb2_grpc.GuardServiceStub(channel)
    text = probe.pb.EchoRequest(text="x" * 100)
    check = pb.CheckCallRequest(dataset=DATASET, session_id="s", call=pb.GuardedCall(tool="tool_7", arguments="{}"))
    response = guards.CheckCall(check)
    if response.note or not response.revision:
        raise SystemExit(f"the guards were not evaluated: {response.note}")
    times: dict[str, list[float]] = {"echo": [], "check_call": []}
    for _ in range(WARM_UP + ROUNDS):
        for name, call in (("echo", partial(echo.Echo, text)), ("check_call", partial(guards.CheckCall, check))):
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
    return times


if __name__ == "__main__":
    main()
