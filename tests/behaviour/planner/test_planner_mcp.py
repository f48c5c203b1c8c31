"""Tools of MCP servers in processes of their own: one that speaks stdio, one that speaks streamable HTTP."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hansei.planner.v1 import planner_pb2 as pb
from tests.fakes import mcp_server
from tests.support.planner_service import running, wait_for_tool_result
from tests.support.systems import free_port

SERVER = [sys.executable, str(mcp_server.__file__)]
CONNECT_SECONDS = 60


@contextmanager
def over_stdio() -> Iterator[list[str]]:
    yield SERVER


@contextmanager
def over_http() -> Iterator[str]:
    port = free_port()
    with subprocess.Popen([*SERVER, str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


async def until_there(target: str | list[str]) -> None:
    """Wait for a server over HTTP; the planner itself would look for it again only after seconds."""
    if isinstance(target, list):
        return
    host, _, port = target.split("/")[2].partition(":")
    async with asyncio.timeout(CONNECT_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)
            else:
                with closing(writer):
                    return


@pytest.mark.parametrize("server", [over_stdio, over_http])
async def test_the_tools_of_an_mcp_server_are_steps(server: Any, tmp_path: Path) -> None:
    with server() as target:
        await until_there(target)
        async with running(tmp_path, planner_mcp_servers={"facts": target}) as stub:
            found = await wait_for_tool_result(stub, pb.ACTION_WEB_SEARCH, "空の色")
            expect_error = await wait_for_tool_result(stub, pb.ACTION_CODE_EXECUTE, "1 + 1")
    assert found.overall_status == pb.EXECUTION_STATUS_SUCCESS
    assert found.step_results[0].output == "found 空の色"
    assert expect_error.step_results[0].error == "Error executing tool code_execute"  # the server keeps its reasons
