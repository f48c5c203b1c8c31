"""`hansei mcp` with the official inspector, in both eras of the protocol and over both transports."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansei.client import Client
from hansei.client.cli.embedded_stack import build_temp_settings
from tests.behaviour.client.test_cli_shell import HANSEI, environment
from tests.behaviour.client.test_mcp import TOOLS, over_http

PROGRAM = shlex.split(os.environ.get("HANSEI_MCP_INSPECTOR", ""))
pytestmark = pytest.mark.skipif(not PROGRAM, reason="HANSEI_MCP_INSPECTOR does not name it: make test-frameworks")
ERAS = ["legacy", "modern"]
SECONDS = 120


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Client.local(**build_temp_settings(tmp_path_factory.mktemp("inspector"))) as client:
        yield client


@pytest.fixture(params=["stdio", "http"])
def target(request: pytest.FixtureRequest, stack: Client, tmp_path: Path) -> Iterator[list[str]]:
    """The command or the URL of a server."""
    if request.param == "stdio":
        yield [*HANSEI, "mcp", "--addr", stack.address]
        return
    with over_http(tmp_path, "--addr", stack.address) as url:
        yield [url]


def inspect(target: list[str], era: str, method: str, *options: str) -> Any:
    """Run the inspector and return the JSON that it prints."""
    waiting = ["--connect-timeout", str(SECONDS * 1000)]
    command = [*PROGRAM, "--cli", *waiting, "--protocol-era", era, "--format", "json", "--method", method, *options]
    command += ["--", *target]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_and_calls_the_tools(target: list[str], era: str) -> None:
    listed = inspect(target, era, "tools/list", "--strict")
    assert {tool["name"] for tool in listed["result"]["tools"]} == TOOLS
    dataset = f"inspected-{era}-{len(target)}"
    lesson = ["--tool-arg", "text=Pull before a push.", "--tool-arg", f"dataset={dataset}"]
    inspect(target, era, "tools/call", "--tool-name", "remember", *lesson)
    page = inspect(target, era, "tools/call", "--tool-name", "read_playbook", "--tool-arg", f"dataset={dataset}")
    assert "Pull before a push." in json.dumps(page)
    text = inspect(target, era, "resources/read", "--uri", f"playbook://{dataset}")
    assert "Pull before a push." in json.dumps(text)
