"""The adapters of agent frameworks, run with the offline model of each framework; skipped where it is not installed.

The memory is scripted: what the frameworks do with it is tested here, what it does is tested with a server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from hansei.client.adapters.agent_memory import AgentMemory, ToolVerdict

TASK, LESSON, REFUSAL = "invert something", "Never invert zero.", "zero has no inverse"


class ScriptedMemory(AgentMemory):
    """Serves one lesson, refuses to invert zero, and records reports."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.reports: list[tuple[Any, bool]] = []

    def recall(self, task: str) -> str:
        self.tasks.append(task)
        return LESSON

    def check(self, tool: str, arguments: Mapping[str, Any]) -> ToolVerdict:
        self.calls.append((tool, dict(arguments)))
        return ToolVerdict(is_allowed=arguments.get("x") != 0, text=REFUSAL)

    def report(self, document: object, *, succeeded: bool, reward: float | None = None) -> None:
        self.reports.append((json.loads(json.dumps(document, default=str)), succeeded))


def check_memory(memory: ScriptedMemory) -> None:
    assert set(memory.tasks) == {TASK}
    assert memory.calls == [("invert", {"x": 0}), ("invert", {"x": 2})]
    ((document, succeeded),) = memory.reports
    assert succeeded
    assert REFUSAL in json.dumps(document)
    assert "It is 0.5." in json.dumps(document)


@pytest.mark.filterwarnings("ignore")
async def test_an_agent_of_pydantic_ai_uses_the_memory() -> None:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from hansei.client.adapters import pydantic_ai as adapter

    memory, instructions = ScriptedMemory(), []
    replies = iter([ToolCallPart("invert", {"x": 0}), ToolCallPart("invert", {"x": 2}), TextPart("It is 0.5.")])

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        instructions.append(info.instructions)
        return ModelResponse(parts=[next(replies)])

    agent: Any = Agent(FunctionModel(model), capabilities=[adapter.PlaybookCapability(memory)])

    @agent.tool_plain
    def invert(x: int) -> float:
        return 1 / x

    result = await agent.run(TASK)
    adapter.report(memory, result, succeeded=True)
    assert instructions == [LESSON] * 3
    check_memory(memory)


@pytest.mark.filterwarnings("ignore")
def test_an_agent_of_langgraph_uses_the_memory() -> None:
    pytest.importorskip("langchain.agents", reason="the extra langgraph is not installed")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool

    from hansei.client.adapters import langgraph as adapter

    prompts: list[str] = []

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, *arguments: Any, **options: Any) -> Any:
            prompts.append(str(messages[0].content))
            return super()._generate(messages, *arguments, **options)

    @tool
    def invert(x: int) -> float:
        """Invert a number."""
        return 1 / x

    def call(number: int) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": "invert", "args": {"x": number}, "id": f"c{number}"}])

    memory = ScriptedMemory()
    model = Model(messages=iter([call(0), call(2), AIMessage("It is 0.5.")]))
    agent = create_agent(model, [invert], system_prompt="Be brief.", middleware=[adapter.PlaybookMiddleware(memory)])
    state = agent.invoke({"messages": [("user", TASK)]})
    adapter.report(memory, state, succeeded=True)
    assert prompts == [f"Be brief.\n\n{LESSON}"] * 3
    check_memory(memory)


@pytest.mark.filterwarnings("ignore")
async def test_an_agent_of_openai_agents_uses_the_memory() -> None:
    pytest.importorskip("agents", reason="the extra openai-agents is not installed")
    from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from agents.models.interface import Model
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    from hansei.client.adapters import openai_agents as adapter

    set_tracing_disabled(True)
    instructions: list[str | None] = []

    def call(number: int) -> Any:
        arguments = json.dumps({"x": number})
        return ResponseFunctionToolCall(call_id=f"c{number}", name="invert", arguments=arguments, type="function_call")

    text = ResponseOutputText(text="It is 0.5.", type="output_text", annotations=[])
    answer = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")

    class ScriptedModel(Model):
        replies = iter([call(0), call(2), answer])

        async def get_response(self, system_instructions: str | None, *arguments: Any, **options: Any) -> ModelResponse:
            instructions.append(system_instructions)
            return ModelResponse(output=[next(self.replies)], usage=Usage(), response_id=None)

        def stream_response(self, *arguments: Any, **options: Any) -> Any:
            raise AssertionError("the run does not stream")

    def invert(x: int) -> float:
        return 1 / x

    memory = ScriptedMemory()
    tools = adapter.guard_tools(memory, [function_tool(invert)])
    agent = Agent(name="Solver", instructions="Be brief.", model=ScriptedModel(), tools=tools)
    result = await Runner.run(agent, TASK, run_config=adapter.build_run_config(memory))
    adapter.report(memory, result, succeeded=True)
    assert instructions == [f"Be brief.\n\n{LESSON}"] * 3
    check_memory(memory)


@pytest.mark.filterwarnings("ignore")
def test_an_agent_of_smolagents_uses_the_memory() -> None:
    pytest.importorskip("smolagents", reason="the extra smolagents is not installed")
    from smolagents import CodeAgent, tool
    from smolagents.models import ChatMessage, MessageRole, Model

    from hansei.client.adapters import smolagents as adapter

    prompts: list[str] = []

    class ScriptedModel(Model):
        replies = iter(["invert(0)", "print(invert(2))", "final_answer('It is 0.5.')"])

        def generate(self, messages: Any, **options: Any) -> ChatMessage:
            prompts.append(str(messages[0].content))
            code = f"<code>\n{next(self.replies)}\n</code>"
            return ChatMessage(role=MessageRole.ASSISTANT, content=code)

    @tool
    def invert(x: int) -> float:
        """Invert a number.

        Args:
            x: the number
        """
        return 1 / x

    memory = ScriptedMemory()
    tools = adapter.guard_tools(memory, [invert])
    agent = CodeAgent(tools=tools, model=ScriptedModel(), instructions=memory.recall(TASK), verbosity_level=0)
    assert agent.run(TASK) == "It is 0.5."
    adapter.report(memory, agent, succeeded=True)
    assert all(LESSON in prompt for prompt in prompts)
    check_memory(memory)
