"""Time and processor time of hooks at the agent: `python -m bench.hooks`.

Each call starts `hansei hook claude` as Claude Code does, with a gateway and a playbook of 1,000 bullets, without a
gateway, and with one that does not respond. The start of a Python that does nothing is the floor. Writes
`bench/results/hooks.json` and the table in `bench/README.md`.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import uvloop

from bench.load import wait_until_idle
from bench.loop import WORDS, fill_playbook
from bench.report import machine, write
from tests.support import systems

BULLETS = 1_000
CALLS = 60
WARM_UP = 5
DATASET = "bench-1000"
# Installed modules are compiled; a checkout where bytecode must not be written would compile them at each start.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
PROGRAM = str(Path(sys.executable).with_name("hansei"))


def main() -> None:
    """Measure and write."""
    with tempfile.TemporaryDirectory() as folder:
        rows = _measure(Path(folder))
    floor = rows[0]["cpu_ms"]
    rows = [row | {"cpu_to_python": round(row["cpu_ms"] / floor, 2)} for row in rows]
    write("hooks", {"machine": machine() | {"load": f"{os.getloadavg()[0]:.1f}"}, "rows": rows})


def _measure(folder: Path) -> list[dict[str, Any]]:
    rows = [_run("python -c pass", [sys.executable, "-c", "pass"], dict)]
    http_address = f"127.0.0.1:{systems.free_port()}"
    environment = {"HANSEI_HTTP_ADDRESS": http_address, "HANSEI_LOG_LEVEL": "WARNING"}
    with systems.one_process(folder, **environment) as system:
        uvloop.run(_fill(system.address))
        wait_until_idle(system.processes["allinone"].pid)
        hook = [PROGRAM, "hook", "claude", "--dataset", DATASET, "--url", f"http://{http_address}"]
        rows.append(_run("prompt", hook, _build_prompt))
        rows.append(_run("start of a session", hook, _build_start))
        rows.append(_run("before a tool call", hook, _build_call))
    rows.append(_run("prompt, no gateway", hook, _build_prompt))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hook[-1] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        rows.append(_run("prompt, silent gateway", hook, _build_prompt, calls=CALLS // 4))
    return rows


async def _fill(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        await fill_playbook(channel, DATASET, BULLETS)


def _run(what: str, command: Sequence[str], build_event: Any, calls: int = CALLS) -> dict[str, Any]:
    measured = [_measure_call(command, build_event()) for _ in range(calls + WARM_UP)][WARM_UP:]
    seconds, cpu, sizes = zip(*measured, strict=True)
    percentiles = statistics.quantiles(seconds, n=100)
    return {
        "what": what,
        "calls": calls,
        "p50_ms": round(percentiles[49] * 1000, 1),
        "p95_ms": round(percentiles[94] * 1000, 1),
        "max_ms": round(max(seconds) * 1000, 1),
        "cpu_ms": round(statistics.median(cpu) * 1000, 1),
        "output_bytes": int(statistics.median(sizes)),
    }


def _measure_call(command: Sequence[str], event: dict[str, Any]) -> tuple[float, float, int]:
    """Return the seconds from the start of the process to its end, its processor time, and the bytes it wrote."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_ENVIRONMENT)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(event).encode())
    process.stdin.close()
    output = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, output
    return seconds, usage.ru_utime + usage.ru_stime, len(output)


def _build_event(name: str, **fields: Any) -> dict[str, Any]:
    session = str(uuid.uuid4())
    return {"hook_event_name": name, "session_id": session, "cwd": "/src/shop", **fields}


def _build_prompt() -> dict[str, Any]:
    return _build_event("UserPromptSubmit", prompt=f"Fix {WORDS[uuid.uuid4().int % len(WORDS)]} before the next commit")


def _build_start() -> dict[str, Any]:
    return _build_event("SessionStart", source="startup")


def _build_call() -> dict[str, Any]:
    return _build_event("PreToolUse", tool_name="Bash", tool_input={"command": "git push"}, tool_use_id="t1")


if __name__ == "__main__":
    main()
