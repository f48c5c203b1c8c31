"""No answer of the MCP server shows internals of Python for any wrong input."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp import MCPError

from hansei.client.client import AsyncClient
from hansei.mcp_server.server import create_server
from tests.support.systems import System
from tests.support.wrong_inputs import find_python_form

VALUES: tuple[Any, ...] = (7, -1, 1.5, "", "text", "a c", "x" * 400, "a\x00c", True, None, [], [7], ["text"], {})
VALUES += ({"nothing": [1]}, [{"role": 7}], [{"nothing": {"a": [None]}}], [[]], 10**30, "\ud800")
DEFAULTS: Mapping[str, Any] = {"string": "text", "integer": 3, "boolean": True, "array": [], "object": {}}
RESOURCES = ("playbook://missing", "playbook://a%20b", "playbook://", "nothing://x", "playbook://" + "x" * 400)


@asynccontextmanager
async def connect(system: System) -> AsyncIterator[McpClient]:
    async with AsyncClient(system.address) as client, McpClient(create_server(client)) as session:
        yield session


@pytest.fixture
def system(running: Callable[[str], System]) -> System:
    return running("one process")


def wrong_arguments(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield arguments of which one is wrong, missing or unknown."""
    right = {name: DEFAULTS[schema["properties"][name]["type"]] for name in schema.get("required", ())}
    if "dataset" in schema["properties"]:
        right["dataset"] = "nothing"
    yield {}
    yield {**right, "nothing": 1}
    for name in schema["properties"]:
        for value in VALUES:
            yield {**right, name: value}


async def call(session: McpClient, name: str, arguments: dict[str, Any]) -> str:
    """Call a tool, and return the text of an error."""
    try:
        result = await session.call_tool(name, arguments)
    except MCPError as error:
        return str(error)
    return "\n".join(getattr(part, "text", "") for part in result.content) if result.is_error else ""


async def test_no_answer_of_a_tool_shows_python(system: System) -> None:
    found = []
    async with connect(system) as session:
        for tool in (await session.list_tools()).tools:
            for arguments in wrong_arguments(tool.input_schema):
                if form := find_python_form(await call(session, tool.name, arguments)):
                    found.append(f"{tool.name} {arguments}: {form}"[:600])
    assert not found, f"{len(found)}:\n" + "\n".join(found[:12])


async def test_no_answer_about_a_tool_or_a_resource_that_is_not_there_shows_python(system: System) -> None:
    async with connect(system) as session:
        texts = [await call(session, "nothing", {})]
        for uri in RESOURCES:
            with pytest.raises(MCPError) as caught:
                await session.read_resource(uri)
            texts.append(str(caught.value))
    assert [text for text in texts if find_python_form(text)] == []


async def test_unknown_arguments_are_refused_by_name_with_the_nearest_one(system: System) -> None:
    async with connect(system) as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert {tool.input_schema["additionalProperties"] for tool in tools.values()} == {False}
        misspelt = await call(session, "search_playbook", {"query": "x", "datset": "orders-api", "k": 1})
        assert misspelt.splitlines() == [
            "datset: is not an argument of search_playbook; the nearest one is dataset",
            "k: is not an argument of search_playbook; the arguments are query, dataset, top_k",
        ]
        unknown = await call(session, "remember", {"text": "x", "playbook": "orders-api"})
        assert unknown == ("playbook: is not an argument of remember; the arguments are text, section, reason, dataset")


async def test_an_empty_conversation_breaks_a_rule_in_plain_words(system: System) -> None:
    async with connect(system) as session:
        error = await call(session, "learn_from_trajectory", {"messages": [], "succeeded": True, "dataset": "d"})
        assert error == "messages: a list must have 1 or more items, not 0"
        outcome = next(tool for tool in (await session.list_tools()).tools if tool.name == "report_outcome")
        assert "do not call this tool" in (outcome.description or "")
