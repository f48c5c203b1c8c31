"""Tools of an MCP server, called through the official client in this process."""

from mcp import Client
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from services.planner.adapters.mcp_tools import mcp_tools
from services.planner.domain.events import Effect
from services.planner.domain.results import OverallStatus
from services.planner.domain.tools import ToolInput
from services.planner.tests.scripted import agent_plan, agent_step, executor
from services.planner.usecases.ask import InterventionHandler


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


async def test_the_tools_of_a_server_run() -> None:
    async with Client(server()) as client:
        tools = {t.name: t for t in mcp_tools("facts", (await client.list_tools()).tools, client)}
        assert {name: tool.effect for name, tool in tools.items()} == {
            "web_search": Effect.PURE,
            "facts.put": Effect.KEYED,
            "facts.send": Effect.UNSAFE,
        }
        assert (await tools["web_search"].run(ToolInput("x"))).output == "found x"
        assert (await tools["facts.put"].run(ToolInput('{"key": "a", "value": 1}'))).output == "a=1"
        refused = await tools["facts.put"].run(ToolInput('{"key": "a", "value": "many"}'))
        assert not refused.success


async def test_a_plan_uses_them() -> None:  # P-26
    async with Client(server()) as client:
        tools = mcp_tools("facts", (await client.list_tools()).tools, client)
        plan = agent_plan(agent_step(1, action="web_search"))
        result = await executor(*tools).execute_plan(
            plan, people=InterventionHandler(on_confirm=lambda _: "yes", on_escalate=lambda _: "yes")
        )
    assert result.overall_status is OverallStatus.SUCCESS
    assert result.step_results[0].output == "found s1"
