"""Tools of an MCP server, called through the official client in this process."""

import asyncio
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.lowlevel import Server
from mcp.types import ListToolsResult, PaginatedRequestParams, Tool, ToolAnnotations

from chassis.retry import RetryPolicy
from services.planner.adapters import mcp_tools as adapter
from services.planner.adapters.mcp_tools import connect_mcp_tools, list_mcp_tools
from services.planner.domain.events import Effect
from services.planner.domain.results import OverallStatus
from services.planner.domain.tools import ToolInput
from services.planner.tests.parts import agent_plan, agent_step, executor
from services.planner.usecases.interventions import InterventionHandler
from services.planner.usecases.tools import ToolRegistry


def server() -> MCPServer:
    made = MCPServer("facts")

    @made.tool(annotations=ToolAnnotations(read_only_hint=True))
    def web_search(query: str) -> str:
        return f"found {query}"

    @made.tool(annotations=ToolAnnotations(idempotent_hint=True))
    def put(key: str, value: int) -> str:
        return f"{key}={value}"

    @made.tool()
    def send(text: str) -> str:
        return f"sent {text}"

    return made


async def test_the_tools_of_a_server_are_called() -> None:
    async with Client(server()) as client:
        tools = {t.name: t for t in connect_mcp_tools("facts", (await client.list_tools()).tools, client)}
        assert {name: tool.effect for name, tool in tools.items()} == {
            "web_search": Effect.PURE,
            "facts.put": Effect.KEYED,
            "facts.send": Effect.UNSAFE,
        }
        assert (await tools["web_search"].run(ToolInput("x"))).output == "found x"
        assert (await tools["facts.put"].run(ToolInput('{"key": "a", "value": 1}'))).output == "a=1"
        refused = await tools["facts.put"].run(ToolInput('{"key": "a", "value": "many"}'))
        assert not refused.success


async def test_the_tools_of_all_pages_are_listed() -> None:
    async def list_page(_: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        number = int((params and params.cursor) or 0)
        tools = [Tool(name=f"tool{number}", input_schema={"type": "object"})]
        return ListToolsResult(tools=tools, next_cursor=str(number + 1) if number < 2 else None)

    async with Client(Server("facts", on_list_tools=list_page)) as client:
        assert [tool.name for tool in await list_mcp_tools(client)] == ["tool0", "tool1", "tool2"]


async def test_a_plan_uses_the_tools_of_a_server() -> None:  # P-26
    async with Client(server()) as client:
        tools = connect_mcp_tools("facts", (await client.list_tools()).tools, client)
        plan = agent_plan(agent_step(1, action="web_search"))
        result = await executor(*tools).execute_plan(
            plan, people=InterventionHandler(on_confirm=lambda _: "yes", on_escalate=lambda _: "yes")
        )
    assert result.overall_status is OverallStatus.SUCCESS
    assert result.step_results[0].output == "found s1"


async def test_a_server_that_fails_is_connected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter([OSError("no such command"), OSError("no such command")])

    def connect(target: Any) -> Client:
        if (error := next(outcomes, None)) is not None:
            raise error
        return Client(server())

    monkeypatch.setattr(adapter, "Client", connect)
    monkeypatch.setattr(adapter, "_RECONNECT", RetryPolicy(attempts=None, first_pause=0.001))
    is_registered = asyncio.Event()

    class Registry(ToolRegistry):
        def add(self, tool: Any) -> None:
            super().add(tool)
            is_registered.set()

    registry = Registry([])
    task = asyncio.create_task(adapter.connect_mcp_servers({"facts": ["facts"]}, registry))
    await asyncio.wait_for(is_registered.wait(), 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
