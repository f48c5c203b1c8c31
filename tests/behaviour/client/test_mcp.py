"""Test `hansei mcp` with the official client over both transports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters

from chassis.quotations import QUOTATION_NOTICE
from chassis.targets.session import MAX_ARGUMENTS_CHARS
from hansei.client import Client
from hansei.client.cli.embedded_stack import build_temp_settings
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, TARGET_MODE_DENY, Delta, Target
from tests.behaviour.client.test_cli_shell import HANSEI, environment
from tests.support import systems
from tests.support.commands import runner

FAILED = "exit code 128\nfatal: unable to auto-detect email address"
TOOLS = {
    "search_playbook",
    "read_playbook",
    "learn_from_trajectory",
    "vote",
    "remember",
    "edit",
    "forget",
    "recall",
    "report_outcome",
    "check_call",
    "report_call",
    "run_plan",
    "answer_question",
}
MESSAGES = [
    {"role": "user", "content": "Commit the log."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "git", "arguments": '{"command": "git commit"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": FAILED},
    {"role": "assistant", "content": "I could not commit."},
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Client.local(**build_temp_settings(tmp_path_factory.mktemp("mcp"))) as client:
        yield client


def stdio(folder: Path, *arguments: str) -> McpClient:
    command = [*HANSEI, "mcp", *arguments]
    return McpClient(StdioServerParameters(command=command[0], args=command[1:], env=environment(), cwd=folder))


@contextmanager
def over_http(folder: Path, *arguments: str) -> Iterator[str]:
    """Start a server process and yield its URL; stop it by ctrl-c."""
    with run_http_server(folder, *arguments) as (process, url):
        yield url
        process.send_signal(signal.SIGINT)
        assert process.wait(systems.STOP_SECONDS) == 0


@contextmanager
def run_http_server(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server process, and yield it and its URL."""
    process = subprocess.Popen(
        [*HANSEI, "mcp", "--http", "127.0.0.1:0", *arguments],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "is up at http://127.0.0.1:" in line, line + process.stderr.read()
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


@asynccontextmanager
async def http(folder: Path, *arguments: str) -> AsyncIterator[McpClient]:
    with over_http(folder, *arguments) as url:
        async with McpClient(url) as client:
            yield client


@pytest.fixture(params=["stdio", "http"])
def connect(request: pytest.FixtureRequest, stack: Client, tmp_path: Path) -> Any:
    """Return a function that connects to a server; its arguments are those of `hansei mcp`."""

    def connect_with(*arguments: str) -> AbstractAsyncContextManager[McpClient]:
        form = stdio if request.param == "stdio" else http
        return form(tmp_path, "--addr", stack.address, *arguments)

    return connect_with


async def call(client: McpClient, tool: str, /, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def refusal(client: McpClient, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer
    return str(answer.content[0].text)  # type: ignore[union-attr]


def name_of(request: pytest.FixtureRequest) -> str:
    return "".join(letter for letter in request.node.name if letter.isalnum())[:100]


async def test_the_next_search_finds_the_lesson_and_votes_count_once(
    connect: Any, request: pytest.FixtureRequest
) -> None:
    dataset = name_of(request)
    async with connect("--dataset", dataset) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        assert tools["search_playbook"].annotations.read_only_hint
        assert tools["learn_from_trajectory"].annotations.idempotent_hint

        run = {"messages": MESSAGES, "succeeded": False, "test_report": "failed: no commit"}
        learned = await call(client, "learn_from_trajectory", **run)
        assert any("auto-detect email" in lesson for lesson in learned["lessons"])
        assert learned["added"]
        assert await call(client, "learn_from_trajectory", **run) == learned

        page = await call(client, "read_playbook")
        assert (page["dataset"], page["revision"]) == (dataset, learned["revision"])
        assert set(learned["added"]) <= {bullet["id"] for bullet in page["bullets"]}
        first = learned["added"][0]
        vote = {"bullet_id": first, "verdict": "helpful", "trajectory_id": "another-trajectory"}
        assert (await call(client, "vote", **vote))["counted"]
        again = await call(client, "vote", **vote)
        assert not again["counted"]
        assert again["reason"]

        found = await call(client, "search_playbook", query="git commit: unable to auto-detect email address")
        assert first in {bullet["id"] for bullet in found["bullets"] if bullet["keyword_match"]}
        assert (found["note"], found["nothing_matched"]) == ("", False)
        nothing = await call(client, "search_playbook", query="zebra quiche")
        assert nothing["note"].startswith("Nothing matches: no bullet has a word of the query, and the highest sim")
        assert nothing["nothing_matched"]
        assert not any(bullet["keyword_match"] for bullet in nothing["bullets"])
        text = (await client.read_resource(f"playbook://{dataset}")).contents[0].text
        notice, bullet, *_ = text.splitlines()
        assert notice == QUOTATION_NOTICE
        assert bullet.startswith(f"[{page['bullets'][0]['id']}] ")
        assert "<quoted>" in bullet


def create_guarded_dataset(stack: Client, request: pytest.FixtureRequest) -> str:
    """Return a new dataset whose lesson refuses a push before a pull."""
    dataset = name_of(request)
    target = Target(expression="call.tool == 'push' && !called('pull')", mode=TARGET_MODE_DENY, pinned=True)
    delta = Delta(type=DELTA_TYPE_ADD, section="git", content="Pull before a push.", target=target)
    stack.playbooks.apply_deltas(dataset=dataset, deltas=[delta], reason="agreed")
    return dataset


async def test_a_call_is_checked_against_the_targets_of_lessons(
    connect: Any, stack: Client, request: pytest.FixtureRequest
) -> None:
    dataset = create_guarded_dataset(stack, request)
    async with connect("--dataset", dataset) as client:
        push = {"session_id": "task", "tool": "push"}
        assert await call(client, "check_call", **push) == {"decision": "deny", "lessons": ["Pull before a push."]}
        assert await call(client, "report_call", session_id="task", tool="pull", arguments={"branch": "main"}) == {
            "events": 1
        }
        assert await call(client, "check_call", **push) == {"decision": "allow", "lessons": []}


async def test_a_call_with_too_long_arguments_is_checked_and_reported_without_them(
    connect: Any, stack: Client, request: pytest.FixtureRequest
) -> None:
    dataset = create_guarded_dataset(stack, request)
    long = {"session_id": "task", "arguments": {"message": "x" * MAX_ARGUMENTS_CHARS}}
    async with connect("--dataset", dataset) as client:
        assert (await call(client, "check_call", tool="push", **long))["decision"] == "deny"
        assert await call(client, "report_call", tool="pull", **long) == {"events": 1}
        assert (await call(client, "check_call", tool="push", **long))["decision"] == "allow"


async def test_a_recall_in_a_trial_is_reported_once(
    connect: Any, stack: Client, request: pytest.FixtureRequest
) -> None:
    dataset = name_of(request)
    stack.import_playbook(dataset, b"[a-00001] Pull with rebase before a push.\n")
    stack.evidence.start_trials(dataset=dataset)
    async with connect("--dataset", dataset) as client:
        recalled = await call(client, "recall", session_id="task", query="a push was rejected")
        assert await call(client, "recall", session_id="task", query="a push was rejected") == recalled
        assert recalled["serving_id"]
        report = {"serving_id": recalled["serving_id"], "succeeded": True}
        assert (await call(client, "report_outcome", **report))["counted"]
        assert not (await call(client, "report_outcome", **report | {"succeeded": False}))["counted"]
        assert "nothing-here" in await refusal(client, "report_outcome", serving_id="nothing-here", succeeded=True)


async def test_a_lesson_is_remembered_edited_and_forgotten(connect: Any, request: pytest.FixtureRequest) -> None:
    dataset = name_of(request)
    async with connect("--dataset", dataset) as client:
        made = await call(client, "remember", text="Run the zebra check.", reason="said so")
        assert (made["dataset"], made["applied"], made["revision"]) == (dataset, True, 1)
        again = await call(client, "remember", text="Run the zebra check.")
        assert (again["id"], again["applied"], again["revision"]) == (made["id"], False, 1)
        assert made["id"] in again["reason"]
        await call(client, "edit", bullet_id=made["id"], text="Run the quagga check.")
        page = await call(client, "read_playbook")
        assert [bullet["content"] for bullet in page["bullets"]] == ["Run the quagga check."]
        assert (await call(client, "forget", bullet_id=made["id"]))["applied"]
        assert (await call(client, "read_playbook"))["bullets"] == []
        assert "BULLET_NOT_FOUND" in await refusal(client, "forget", bullet_id=made["id"])


async def test_wrong_input_is_refused_in_words_a_model_can_act_on(connect: Any, request: pytest.FixtureRequest) -> None:
    async with connect("--dataset", name_of(request)) as client:
        assert "Invalid dataset name: 'a b'" in await refusal(client, "search_playbook", query="q", dataset="a b")
        assert "top_k" in await refusal(client, "search_playbook", query="q", top_k=0)
        assert "query" in await refusal(client, "search_playbook", query="")
        assert "verdict" in await refusal(client, "vote", bullet_id="b", verdict="great", trajectory_id="r")
        robot = [{"role": "robot", "content": "beep"}]
        refused = await refusal(client, "learn_from_trajectory", messages=robot, succeeded=True)
        assert "trajectory.messages[0].role: 'robot' must be one of" in refused
        assert "messages" in await refusal(client, "learn_from_trajectory", messages=[], succeeded=True)
        unknown = await refusal(client, "learn_from_trajectory", messages=[{"text": "q"}], succeeded=True)
        assert "as openai: trajectory.messages[0].role" in unknown
        there = await call(client, "vote", bullet_id="nobody", verdict="helpful", trajectory_id="r")
        assert not there["counted"]


async def test_which_playbook_is_meant_is_asked_when_there_are_several(connect: Any, stack: Client) -> None:
    for name in ("several-1", "several-2"):
        stack.playbooks.apply_deltas(dataset=name, deltas=[])
        stack.import_playbook(name, b"[a-00001] Text.\n")
    async with connect() as client:
        message = await refusal(client, "read_playbook")
        assert "several playbooks exist; set `dataset` to one of: " in message
        assert all(name in message for name in ("several-1", "several-2"))
        assert (await call(client, "read_playbook", dataset="several-1"))["bullets"]


async def test_a_playbook_is_read_by_section_and_within_bounds(connect: Any, stack: Client) -> None:
    lines = "".join(f"[a-{number:05}] Lesson {number}.\n" for number in range(1, 6))
    stack.import_playbook("bounded", lines.encode(), replace=True)
    async with connect("--dataset", "bounded") as client:
        page = await call(client, "read_playbook", limit=2)
        assert [len(page["bullets"]), page["more"]] == [2, 3]
        assert (await call(client, "read_playbook", section="nowhere"))["bullets"] == []
        assert "limit" in await refusal(client, "read_playbook", limit=100_000)


async def test_without_a_server_it_runs_one_itself_and_keeps_what_was_learned(tmp_path: Path) -> None:
    run = {"messages": MESSAGES, "succeeded": False, "test_report": "failed: no commit"}
    async with stdio(tmp_path, "--local") as client:
        learned = await call(client, "learn_from_trajectory", **run)
        assert learned["added"]
    async with stdio(tmp_path, "--local") as client:
        found = await call(client, "read_playbook")
        assert (found["dataset"], found["revision"]) == ("default", learned["revision"])


async def test_a_server_with_its_own_stack_closes_it_after_sigterm(tmp_path: Path) -> None:
    with run_http_server(tmp_path, "--local") as (process, url):
        # A client of revision 2025-11-25 keeps a stream open.
        async with McpClient(url, mode="legacy") as client:
            await client.list_tools()
            process.terminate()
            assert await asyncio.to_thread(process.wait, systems.STOP_SECONDS) == 0


async def test_an_unavailable_hansei_is_an_error_response(tmp_path: Path) -> None:
    async with stdio(tmp_path, "--addr", "127.0.0.1:1", "--dataset", "d") as client:
        assert "127.0.0.1:1" in await refusal(client, "search_playbook", query="q")
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS


def test_a_page_in_a_browser_cannot_reach_it(stack: Client, tmp_path: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    with over_http(tmp_path, "--addr", stack.address, "--allow-host", "memory.example") as url:
        strange = httpx.post(url, json=hello, headers={**headers, "Host": "rebound.example"})
        assert strange.status_code == 421
        page = httpx.post(url, json=hello, headers={**headers, "Origin": "https://page.example"})
        assert page.status_code == 403
        allowed = httpx.post(url, json=hello, headers={**headers, "Host": "memory.example"})
        assert allowed.status_code not in (421, 403)
        large = httpx.post(url, content=b"x" * (16 * 1024 * 1024), headers=headers)
        assert large.status_code == 413


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--http", "0.0.0.0:0"], "can be reached from other hosts"),
        (["--http", "nonsense"], "'nonsense' is not an address"),
        (["--http", "127.0.0.1:99999"], "is not an address"),
    ],
)
def test_an_unusable_address_is_reported(
    capfd: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    outcome = runner(capfd)("mcp", *arguments)
    assert outcome.code == 1
    assert complaint in outcome.err
    assert "Traceback" not in outcome.err


def test_the_line_for_a_clients_settings_is_the_one_in_the_readme(tmp_path: Path) -> None:
    readme = (systems.ROOT / "sdk/README.md").read_text(encoding="utf-8")
    block = readme.split("```json\n", 1)[1].split("```", 1)[0]
    settings = json.loads(block)["mcpServers"]["hansei"]
    assert settings == {"command": "hansei", "args": ["mcp", "--local"]}
    installed = Path(sys.executable).with_name(settings["command"])
    ran = subprocess.run(
        [installed, *settings["args"]], cwd=tmp_path, env=environment(), input="", capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    assert os.listdir(tmp_path) == ["data"]
