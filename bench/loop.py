"""The echo RPC of the chassis, Search at 1,000 and 10,000 bullets, and Learn with a model that answers at once.

`python -m bench.loop` writes `bench/results/loop.json` and the table in `bench/README.md`. All servers run in
processes of their own on this machine, all in one run, so that only the ratios to the echo say anything.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import uvloop

from bench.load import Measurement, measure, wait_until_idle
from bench.report import machine, write
from chassis.tests import probe
from hansei.gateway.v1 import gateway_service_pb2, gateway_service_pb2_grpc
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from hansei.reflector.v1 import trajectory_pb2
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests.support import systems

SIZES = (1_000, 10_000)
CALLERS = (1, 8, 32)
CALLS = {1: 1_000, 8: 3_000, 32: 3_000}
LEARN_CALLS = {1: 100, 8: 200, 32: 200}
WORDS = [f"{a}{b}" for a in ("git", "sql", "http", "retry", "commit", "schema", "page", "lock") for b in range(500)]
REPLY = json.dumps(
    {
        "analysis": "r",
        "decisive_steps": [],
        "lessons": [
            {
                "evidence_steps": [0],
                "what_happened": "e",
                "cause": "c",
                "better": "a",
                "lesson": "Set user.email before the first commit.",
                "kind": "mistake",
                "confirms": None,
                "contradicts": None,
            }
        ],
        "tags": [],
        "operations": [{"reasoning": "r", "lesson": 1, "op": "SKIP"}],
    }
)


def main() -> None:
    """Measure and write."""
    measured = uvloop.run(_measure())
    echo = {m.callers: m for m in measured if m.what == "echo"}
    rows = [
        m.as_json()
        | {
            "rate_to_echo": round(m.per_second / echo[m.callers].per_second, 3),
            "cpu_to_echo": round(m.cpu_ms / echo[m.callers].cpu_ms, 2),
        }
        for m in measured
    ]
    write("loop", {"machine": machine(), "rows": rows})


async def _measure() -> list[Measurement]:
    found: list[Measurement] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data = Path(folder)
        address, process = stack.enter_context(_echo_server(data))
        found += await _echo(address, process.pid)
        (data / "search").mkdir()
        system = stack.enter_context(systems.one_process(data / "search", HANSEI_LOG_LEVEL="WARNING"))
        wait_until_idle(system.processes["allinone"].pid)
        found += await _search(system)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data = Path(folder)
        url = stack.enter_context(_model(data))
        system = stack.enter_context(
            systems.one_process(
                data, LLM_PROVIDER="openai", OPENAI_API_KEY="none", OPENAI_BASE_URL=url, HANSEI_LOG_LEVEL="WARNING"
            )
        )
        wait_until_idle(system.processes["allinone"].pid)
        found += await _learn(system)
    return found


@contextmanager
def _echo_server(data: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    address = f"127.0.0.1:{systems.free_port()}"
    env = os.environ | {"HANSEI_LISTEN_ADDRESS": address, "HANSEI_LOG_LEVEL": "WARNING"}
    process = subprocess.Popen([sys.executable, "-m", "chassis.tests.probe"], cwd=systems.ROOT, env=env)
    try:
        yield address, process
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def _model(data: Path) -> Iterator[str]:
    """A model that answers at once, in a process of its own; yields its base URL."""
    script = data / "script.json"
    script.write_text(json.dumps([REPLY] * 4 * (sum(LEARN_CALLS.values()) + 50 * len(LEARN_CALLS))))
    command = [sys.executable, "-m", "tests.fakes.openai_server", "--script", str(script)]
    process = subprocess.Popen(command, cwd=systems.ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().partition("=")[2]
    finally:
        process.terminate()
        process.wait(30)


async def _echo(address: str, pid: int) -> list[Measurement]:
    async with grpc.aio.insecure_channel(address) as channel:
        await channel.channel_ready()
        stub: Any = probe.rpc.ProbeServiceStub(channel)
        request = probe.pb.EchoRequest(text="x" * 4_000)
        return [
            await measure("echo", lambda _: stub.Echo(request), pid=pid, callers=callers, calls=CALLS[callers])
            for callers in CALLERS
        ]


async def _search(system: systems.System) -> list[Measurement]:
    found = []
    pid = system.processes["allinone"].pid
    async with grpc.aio.insecure_channel(system.address) as channel:
        stub: Any = search_service_pb2_grpc.SearchServiceStub(channel)
        for size in SIZES:
            dataset = f"bench-{size}"
            revision = await fill_playbook(channel, dataset, size)
            queries = build_queries(dataset, revision)
            await stub.Search(queries[0], timeout=300)
            for callers in CALLERS:
                found.append(
                    await measure(
                        f"search, {size:,} bullets",
                        partial(nth, stub.Search, queries),
                        pid=pid,
                        callers=callers,
                        calls=CALLS[callers],
                    )
                )
    return found


def nth(call: Callable[[object], Awaitable[object]], requests: Sequence[object], number: int) -> Awaitable[object]:
    return call(requests[number % len(requests)])


async def fill_playbook(channel: grpc.aio.Channel, dataset: str, size: int) -> int:
    """Fill a playbook with bullets of twelve words and return its revision."""
    stub: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
    chosen = random.Random(size)
    revision = 0
    for _ in range(0, size, 1_000):
        deltas = [
            playbook_pb2.Delta(
                type=playbook_pb2.DELTA_TYPE_ADD, section="bench", content=" ".join(chosen.choices(WORDS, k=12))
            )
            for _ in range(1_000)
        ]
        request = playbook_service_pb2.ApplyDeltasRequest(
            request_id=str(uuid.UUID(int=chosen.getrandbits(128), version=4)), dataset=dataset, deltas=deltas
        )
        revision = (await stub.ApplyDeltas(request, timeout=300)).revision
    return revision


def build_queries(dataset: str, revision: int) -> list[search_service_pb2.SearchRequest]:
    chosen = random.Random(7)
    return [
        search_service_pb2.SearchRequest(
            dataset=dataset,
            query=search_pb2.SearchQuery(query_text=" ".join(chosen.choices(WORDS, k=4))),
            min_revision=revision,
        )
        for _ in range(100)
    ]


async def _learn(system: systems.System) -> list[Measurement]:
    pid = system.processes["allinone"].pid
    async with grpc.aio.insecure_channel(system.address) as channel:
        stub: Any = gateway_service_pb2_grpc.GatewayServiceStub(channel)

        async def learn(number: int) -> object:
            run = trajectory_pb2.Trajectory(
                id=uuid.uuid4().hex,
                dataset="bench-learn",
                query="Commit the fix",
                status=trajectory_pb2.TRAJECTORY_STATUS_FAILURE,
                steps=[trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_ASSISTANT, content="git commit")],
            )
            response = await stub.Learn(
                gateway_service_pb2.LearnRequest(request_id=str(uuid.uuid4()), dataset=run.dataset, trajectory=run)
            )
            assert response.curation.saved, response.curation.error
            return response

        return [
            await measure(
                "learn, model answers at once",
                learn,
                pid=pid,
                callers=callers,
                calls=LEARN_CALLS[callers],
                warm_up=10,
            )
            for callers in CALLERS
        ]


if __name__ == "__main__":
    main()
