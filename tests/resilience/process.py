"""The probe, or any service, as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass
class ProbeProcess:
    """A running probe: where it listens, and what it has logged so far."""

    process: Process
    records: list[dict[str, Any]] = field(default_factory=list)

    async def logged(self, event: str) -> dict[str, Any]:
        """Read the log up to a record."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            if line.startswith(b"{"):
                self.records.append(json.loads(line))
                if self.records[-1]["event"] == event:
                    return self.records[-1]
        raise AssertionError(f"no {event!r} in {self.records}")

    async def finished(self) -> int:
        """Read the log to its end; the exit status."""
        assert self.process.stderr is not None
        rest = await self.process.stderr.read()
        self.records += [json.loads(line) for line in rest.splitlines() if line.startswith(b"{")]
        return await self.process.wait()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


def environment(**settings: str) -> dict[str, str]:
    paths = os.pathsep.join(str(ROOT / part) for part in (".", "stubs", "sdk"))
    return {**os.environ, "PYTHONPATH": paths, "HANSEI_LISTEN_ADDRESS": "127.0.0.1:0"} | settings


@asynccontextmanager
async def probe_process(*program: str, **settings: str) -> AsyncIterator[ProbeProcess]:
    """Start a probe, or another `program`, with these environment variables; killed at the end if it still runs."""
    arguments = program or ("-m", "chassis.tests.probe")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environment(**settings), stderr=PIPE, cwd=ROOT
    )
    try:
        yield ProbeProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
