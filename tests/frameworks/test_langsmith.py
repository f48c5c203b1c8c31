"""LangSmith's own client writes the runs of a LangGraph agent to a server that records them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.frameworks.scripted_runs import RUNS, TASK, check_run

pytest.importorskip("langchain", reason="the frameworks are not installed: make test-frameworks")
from langchain.agents import create_agent
from langchain_core.tracers.langchain import LangChainTracer
from langsmith import Client

from tests.frameworks.test_langgraph import build_model, invert


class RunServer(ThreadingHTTPServer):
    """Records runs as LangSmith's API gets them: one request when a run starts, one when it has ended."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.runs: dict[str, dict[str, Any]] = {}


class _Handler(BaseHTTPRequestHandler):
    server: RunServer

    def do_GET(self) -> None:
        self._reply({})

    def do_POST(self) -> None:
        run = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.runs.setdefault(run["id"], {}).update(run)
        self._reply({})

    def do_PATCH(self) -> None:
        changes = json.loads(self.rfile.read(int(self.headers["content-length"])))
        run = self.server.runs.setdefault(self.path.rpartition("/")[2], {})
        run.update({name: value for name, value in changes.items() if value is not None})
        self._reply({})

    def _reply(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing."""


@pytest.fixture
def run_server() -> Iterator[RunServer]:
    with RunServer() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", RUNS)
def test_its_runs_are_read(run_server: RunServer, name: str) -> None:
    url = f"http://127.0.0.1:{run_server.server_port}"
    client = Client(api_url=url, api_key="key", auto_batch_tracing=False)
    tracer = LangChainTracer(client=client, project_name="frameworks")
    agent = create_agent(build_model(RUNS[name]), [invert], system_prompt="Be brief.")
    agent.invoke({"messages": [("user", TASK)]}, config={"callbacks": [tracer]})
    tracer.wait_for_futures()
    check_run("\n".join(map(json.dumps, run_server.runs.values())).encode(), name, "langsmith")
