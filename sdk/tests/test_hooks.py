"""`hansei hook` as agents run it: recorded input on stdin, output on stdout, and a gateway that may be away."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from hansei.client.hooks.servings import take_serving

HOOK = [sys.executable, "-c", "from hansei.client.entry import main; main()", "hook"]
EVENTS: dict[str, Any] = json.loads(Path(__file__).with_name("hook_events.json").read_text(encoding="utf-8"))
"""The input that each agent writes to its hooks, as its documentation and its schemas have it."""
REPLY = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "Run pnpm add. 反省"}}
HEAVY = {"typer", "grpc", "pydantic", "http.client", "rich", "ssl", "typing", "asyncio", "subprocess", "urllib.parse"}


@dataclass
class Gateway:
    """A gateway with one answer; it records the requests."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)


@contextmanager
def gateway_server(gateway: Gateway) -> Iterator[Gateway]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            gateway.requests.append((self.path, dict(self.headers), body))
            self.send_response(gateway.status)
            for name, value in gateway.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps(REPLY, ensure_ascii=False).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        gateway.url = f"http://127.0.0.1:{server.server_port}"
        yield gateway
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with gateway_server(Gateway()) as running:
        yield running


def run_hook(*arguments: str, event: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    stdin = event if isinstance(event, str) else json.dumps(event)
    variables = {**os.environ, "HANSEI_HOOK_SECONDS": "20", "PYTHONIOENCODING": "utf-8", **environment}
    return subprocess.run(
        [*HOOK, *arguments], input=stdin, capture_output=True, text=True, env=variables, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("agent", "name"),
    [(agent, name) for agent, events in EVENTS.items() for name in events if not name.lower().endswith("end")],
)
def test_the_response_of_the_gateway_reaches_each_agent(gateway: Gateway, agent: str, name: str) -> None:
    event = EVENTS[agent][name]
    ran = run_hook(agent, "--url", gateway.url, "--dataset", "shop-1", event=event)
    assert (ran.returncode, json.loads(ran.stdout), ran.stderr) == (0, REPLY, "")
    ((path, headers, body),) = gateway.requests
    endpoint = {"claude": "claude-code"}.get(agent, agent)
    assert path == f"/v1/hooks/{endpoint}?dataset=shop-1"
    assert headers["Content-Type"] == "application/json"
    assert "Authorization" not in headers
    assert body == {key: value for key, value in event.items() if key in body}
    # Fields that the gateway does not read are not sent.
    assert not {"transcript_path", "user_email", "model"} & body.keys()
    assert {"hook_event_name"} <= body.keys()


def test_a_hook_sends_its_token_and_no_secret(gateway: Gateway) -> None:
    prompt = "deploy with ghp_0123456789abcdefghij0123456789abcdef and the password hunter22"
    event = {**EVENTS["claude"]["PreToolUse"], "prompt": prompt, "tool_input": {"command": "x", "api_key": "short"}}
    run_hook("claude", "--url", gateway.url, event=event, HANSEI_TOKEN="the-token", SHOP_PASSWORD="hunter22")
    ((_, headers, body),) = gateway.requests
    assert headers["Authorization"] == "Bearer the-token"
    assert body["prompt"] == "deploy with ghp_[redacted] and the password [redacted]"
    assert body["tool_input"] == {"command": "x", "api_key": "[redacted]"}


def test_the_serving_of_a_session_is_kept_for_its_outcome(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSEI_DATA_DIR", str(tmp_path))
    gateway.headers["X-Hansei-Serving-Id"] = "serving-1"
    event = EVENTS["claude"]["UserPromptSubmit"]
    run_hook("claude", "--url", gateway.url, event=event, HANSEI_DATA_DIR=str(tmp_path))
    assert take_serving(event["session_id"]) == ("coding", "serving-1")
    assert take_serving(event["session_id"]) is None


def test_the_agent_gets_its_lessons_also_if_the_serving_cannot_be_stored(gateway: Gateway, tmp_path: Path) -> None:
    gateway.headers["X-Hansei-Serving-Id"] = "serving-1"
    (tmp_path / "file").touch()
    event = EVENTS["claude"]["UserPromptSubmit"]
    ran = run_hook("claude", "--url", gateway.url, event=event, HANSEI_DATA_DIR=str(tmp_path / "file"))
    assert (ran.returncode, json.loads(ran.stdout)) == (0, REPLY)
    assert "the outcome of this session cannot be reported" in ran.stderr


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("agent", "name", "output"),
    [
        ("claude", "SessionStart", "message"),
        ("claude", "UserPromptSubmit", "message"),
        ("claude", "PreToolUse", {}),
        ("codex", "UserPromptSubmit", "message"),
        ("cursor", "sessionStart", {}),
        ("cursor", "beforeSubmitPrompt", {"continue": True}),
    ],
)
def test_without_a_gateway_the_agent_continues_and_one_line_is_printed(
    agent: str, name: str, output: Any, closed_port: int
) -> None:
    url = f"http://127.0.0.1:{closed_port}"
    ran = run_hook(agent, "--url", url, event=EVENTS[agent][name])
    notice = f"hansei: {url}: connection refused; continuing without lessons"
    assert ran.returncode == 0
    if output == "message":
        assert (json.loads(ran.stdout), ran.stderr) == ({"systemMessage": notice}, "")
    else:
        assert (json.loads(ran.stdout), ran.stderr) == (output, notice + "\n")


def test_a_gateway_that_does_not_respond_is_given_up_after_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        start = time.monotonic()
        ran = run_hook("claude", "--url", url, event=EVENTS["claude"]["UserPromptSubmit"], HANSEI_HOOK_SECONDS="0.2")
        assert time.monotonic() - start < 20
    assert "no response in time; continuing without lessons" in json.loads(ran.stdout)["systemMessage"]


def test_a_refusal_of_the_gateway_is_shown_and_the_agent_continues(gateway: Gateway) -> None:
    gateway.status = 401
    ran = run_hook("claude", "--url", gateway.url, event=EVENTS["claude"]["UserPromptSubmit"])
    assert ran.returncode == 0
    assert "HTTP 401 Unauthorized" in json.loads(ran.stdout)["systemMessage"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "problem"),
    [
        (["emacs"], "{}", "usage: hansei hook"),
        (["claude", "--dataset"], "{}", "usage: hansei hook"),
        (["claude", "--colour", "red"], "{}", "usage: hansei hook"),
        (["claude", "--dataset", "a b"], "{}", "the dataset 'a b' must match"),
        (["claude"], "{", "hansei: stdin must be a JSON object: Expecting property name"),
        (["claude"], "[]", "hansei: stdin must be a JSON object"),
    ],
)
def test_wrong_usage_never_has_the_exit_code_by_which_agents_refuse(
    arguments: list[str], stdin: str, problem: str
) -> None:
    ran = run_hook(*arguments, event=stdin)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert problem in ran.stderr


def test_a_wrong_time_limit_is_named() -> None:
    ran = run_hook("claude", event="{}", HANSEI_HOOK_SECONDS="soon")
    assert (ran.returncode, ran.stderr) == (1, "hansei: HANSEI_HOOK_SECONDS: 'soon' must be a number\n")


def test_a_hook_imports_nothing_that_loads_slowly() -> None:
    code = "import sys; before = set(sys.modules); import hansei.client.entry, hansei.client.hooks.run"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", f"{code}; print(*set(sys.modules) - before)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert HEAVY & set(ran.stdout.split()) == set()
