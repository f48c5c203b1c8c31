"""The probe, or any service, as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.processes import ModuleCommand, Process, start
from tests.support.shared_resources import CODE, ROOT


@dataclass
class ProbeProcess:
    """A running probe: its address, and its log records so far."""

    process: Process
    output_reader: asyncio.StreamReader
    records: list[dict[str, Any]] = field(default_factory=list)

    async def read_until(self, event: str) -> dict[str, Any]:
        """Read the log up to a record."""
        while line := await self.output_reader.readline():
            if line.startswith(b"{"):
                self.records.append(json.loads(line))
                if self.records[-1]["event"] == event:
                    return self.records[-1]
        raise AssertionError(f"no {event!r} in {self.records}")

    async def read_rest(self) -> int:
        """Read the log to its end; the exit status."""
        rest = await self.output_reader.read()
        self.records += [json.loads(line) for line in rest.splitlines() if line.startswith(b"{")]
        return await asyncio.to_thread(self.process.wait)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


def environment(**settings: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": CODE, "HANSEI_LISTEN_ADDRESS": "127.0.0.1:0"} | settings


@asynccontextmanager
async def probe_process(
    module: str = "chassis.tests.probe", folder: Path = ROOT, /, **settings: str
) -> AsyncIterator[ProbeProcess]:
    """Start a probe, or another module, with these environment variables; killed at the end if it still runs."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as output:
        process = start(ModuleCommand(module, str(folder), environment(**settings)), output, output)
    output_reader = asyncio.StreamReader()
    with os.fdopen(reading, "rb") as pipe:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(output_reader), pipe
        )
        try:
            yield ProbeProcess(process, output_reader)
        finally:
            transport.close()
            process.kill()
            await asyncio.to_thread(process.wait)
