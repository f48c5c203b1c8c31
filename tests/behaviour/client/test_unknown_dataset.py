"""Test that a read of a dataset that does not exist says so, everywhere, and creates nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from openai import OpenAI

from hansei.client import AsyncClient, Client
from hansei.client.errors import NotFound
from hansei.client.openai import AgentSession
from tests.behaviour.client.test_mcp import refusal, stdio
from tests.support import systems
from tests.support.commands import Hansei, hansei

__all__ = ["hansei"]  # fixtures

MESSAGE = 'dataset "devtool" does not exist; similar names: devtools'


@pytest.fixture(scope="module")
def http_address() -> str:
    return f"127.0.0.1:{systems.free_port()}"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, http_address: str) -> Iterator[systems.System]:
    with systems.one_process(tmp_path_factory.mktemp("unknown"), HANSEI_HTTP_ADDRESS=http_address) as system:
        with Client(system.address, tls=False) as client:
            client.import_playbook("devtools", b"[a-00001] Pull before you push.\n")
        yield system


@pytest.fixture
def client(system: systems.System) -> Iterator[Client]:
    with Client(system.address, tls=False) as client:
        yield client
        assert [dataset.name for dataset in client.playbooks.list_datasets().datasets] == ["devtools"]


@pytest.mark.parametrize(
    "command",
    [
        "search git",
        "ask git",
        "jobs list",
        "playbook show",
        "playbook show --revision 2",
        "playbook history",
        "playbook history a-00001",
        "playbook diff 0",
        "playbook export -",
        "playbook restore 0",
        "playbook revoke t --dry-run",
        "playbook review",
        "forget a-00001",
        "edit a-00001 Push.",
    ],
)
def test_every_command_on_a_missing_dataset_exits_with_4(hansei: Hansei, client: Client, command: str) -> None:
    outcome = hansei(*command.split(), "-d", "devtool")
    assert (outcome.code, outcome.out) == (4, "")
    assert outcome.err == f"Error: {MESSAGE} [DATASET_NOT_FOUND]\n"


@pytest.mark.parametrize(
    "command",
    ["effects", "trials status", "trials start", "decisions", "decisions --follow", "guards list", "guards decisions"],
)
def test_a_command_of_a_service_without_datasets_exits_with_4(hansei: Hansei, client: Client, command: str) -> None:
    outcome = hansei(*command.split(), "devtool")
    assert (outcome.code, outcome.out, outcome.err) == (4, "", f"Error: {MESSAGE} [DATASET_NOT_FOUND]\n")
    outcome = hansei(*command.split(), "devtool", "--json")
    assert (outcome.code, outcome.out) == (4, "")


def test_hints_name_commands_with_the_dataset(hansei: Hansei, client: Client) -> None:
    shown = hansei("trials", "status", "devtools").out
    assert shown == "devtools never had trials; start them with: hansei trials start devtools\n"
    assert "start them with: hansei trials start devtools" in hansei("trials", "stop", "devtools").err
    assert "list them with: hansei decisions devtools" in hansei("trials", "undo", "devtools", 9).err
    assert "list them with: hansei guards decisions devtools" in hansei("guards", "undo", "devtools", 9).err


def test_a_merge_names_the_dataset_that_is_missing(hansei: Hansei, client: Client) -> None:
    outcome = hansei("playbook", "merge", "devtool", "--into", "devtools")
    assert (outcome.code, outcome.err) == (4, f"Error: {MESSAGE} [DATASET_NOT_FOUND]\n")


@pytest.mark.parametrize(
    "path", ["", "/bullets", "/summary", "/history", "/diff", "/policy", "/pending", "/events", "/index"]
)
def test_http_answers_404(client: Client, http_address: str, path: str) -> None:
    with httpx.stream("GET", f"http://{http_address}/v1/playbooks/devtool{path}", timeout=60) as response:
        response.read()
    assert response.status_code == 404, response.text
    assert (response.json()["detail"], response.json()["reason"]) == (MESSAGE, "DATASET_NOT_FOUND")


def test_a_search_over_http_answers_404_unless_the_caller_allows_it(client: Client, http_address: str) -> None:
    def search(**fields: object) -> httpx.Response:
        body = {"dataset": "devtool", "query": {"query_text": "git"}, **fields}
        return httpx.post(f"http://{http_address}/v1/search", json=body, timeout=60)

    assert (search().status_code, search().json()["detail"]) == (404, MESSAGE)
    allowed = search(allow_missing=True)
    assert (allowed.status_code, allowed.json().get("results", [])) == (200, [])


def test_the_workflow_answers_without_a_playbook(client: Client, http_address: str) -> None:  # G-36
    body = {"query": "What is git?", "dataset": "devtool"}
    answered = httpx.post(f"http://{http_address}/workflow/run", json=body, timeout=60)
    assert (answered.status_code, answered.json()["search_results_count"]) == (200, 0)


def test_the_sdk_raises_not_found_with_similar_names(client: Client) -> None:
    with pytest.raises(NotFound) as caught:
        client.search("devtool", "git")
    assert (caught.value.message, caught.value.metadata["similar"]) == (MESSAGE, "devtools")
    assert not client.search("devtool", "git", allow_missing=True).results


def test_the_first_session_of_an_agent_finds_no_lessons(client: Client) -> None:
    session = AgentSession(OpenAI(api_key="unused"), client, "devtool")
    messages = [{"role": "user", "content": "Push."}]
    assert session.prompt(messages) == messages


async def test_the_async_sdk_raises_not_found_for_an_edit(client: Client) -> None:
    async with AsyncClient(client.address, tls=False) as async_client:
        for edit in (async_client.forget("devtool", "a-00001"), async_client.edit("devtool", "a-00001", "Push.")):
            with pytest.raises(NotFound) as caught:
                await edit
            assert caught.value.message == MESSAGE


async def test_an_mcp_tool_names_similar_datasets(client: Client, tmp_path: Path) -> None:
    async with stdio(tmp_path, "--addr", client.address) as mcp:
        for tool in ("search_playbook", "read_playbook"):
            arguments = {"query": "git"} if tool == "search_playbook" else {}
            assert MESSAGE in await refusal(mcp, tool, dataset="devtool", **arguments)


def test_a_local_read_creates_no_data(hansei: Hansei, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    outcome = hansei("search", "git", "-d", "devtool", "--local", "--data-dir", directory)
    assert outcome.code == 4
    assert "does not exist" in outcome.err
    assert not directory.exists()
