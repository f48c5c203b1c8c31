"""OpenAI Agents SDK with a scripted server: the adapter, its items and traces, and the spans of OpenInference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.fakes.agent_models import AgentModel, serve_agent_model
from tests.frameworks.scripted_runs import ANSWER, LESSON, RUNS, TASK, ScriptedMemory, check_memory, check_run

pytest.importorskip("agents", reason="the frameworks are not installed: make test-frameworks")
from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    RunResult,
    function_tool,
    set_trace_processors,
    set_tracing_disabled,
)
from agents.tracing import TracingProcessor
from google.protobuf.json_format import MessageToJson
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hansei.client.adapters import openai_agents as adapter
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.errors import MalformedTrajectory
from tests.frameworks.test_openai import write_completion


class Recorder(TracingProcessor):
    """Keeps traces and spans as the exporter of the SDK sends them."""

    def __init__(self) -> None:
        self.objects: list[Any] = []

    def on_trace_start(self, trace: Any) -> None:
        self.objects.append(trace.export())

    def on_trace_end(self, trace: Any) -> None:
        pass

    def on_span_start(self, span: Any) -> None:
        pass

    def on_span_end(self, span: Any) -> None:
        self.objects.append(span.export())

    def shutdown(self) -> None:
        pass

    def force_flush(self) -> None:
        pass


@pytest.fixture(scope="module")
def model() -> Iterator[AgentModel]:
    with serve_agent_model() as serving:
        yield serving


@function_tool
def invert(x: int) -> float:
    """Invert a number."""
    return 1 / x


async def run_agent(
    model: AgentModel, replies: list[int | str], tools: list[FunctionTool], **options: Any
) -> RunResult:
    model.replies = [reply if isinstance(reply, str) else ("invert", {"x": reply}) for reply in replies]
    model.requests.clear()
    async with AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none") as client:
        responses = OpenAIResponsesModel("scripted", client)
        agent = Agent(name="Solver", instructions="Be brief.", model=responses, tools=tools)
        return await Runner.run(agent, TASK, **options)


async def test_an_agent_uses_the_memory(model: AgentModel) -> None:
    set_tracing_disabled(True)
    memory = ScriptedMemory()
    config = adapter.build_run_config(memory)
    result = await run_agent(model, [0, 2, ANSWER], adapter.guard_tools(memory, [invert]), run_config=config)
    adapter.report(memory, result, succeeded=True)
    assert [request["instructions"] for request in model.requests] == [f"Be brief.\n\n{LESSON}"] * 3
    check_memory(memory, "openai_responses")


@pytest.mark.parametrize("arguments", ['{"x": ', "[2]"])
async def test_arguments_that_are_no_object_reach_the_tool_and_do_not_end_the_run(
    model: AgentModel, arguments: str
) -> None:
    set_tracing_disabled(True)
    memory = ScriptedMemory()
    model.replies = [("invert", arguments), ("invert", {"x": 2}), ANSWER]
    async with AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none") as client:
        responses = OpenAIResponsesModel("scripted", client)
        agent = Agent(name="Solver", model=responses, tools=adapter.guard_tools(memory, [invert]))
        result = await Runner.run(agent, TASK)
    assert result.final_output == ANSWER
    assert memory.calls == [("invert", {"x": 2})]


@pytest.mark.parametrize("name", RUNS)
async def test_its_items_are_read(model: AgentModel, name: str) -> None:
    set_tracing_disabled(True)
    result = await run_agent(model, RUNS[name], [invert])
    check_run(json.dumps({"items": result.to_input_list()}).encode(), name, "openai_responses")


@pytest.mark.parametrize("name", RUNS)
async def test_spans_of_openinference_are_read(model: AgentModel, name: str) -> None:
    set_tracing_disabled(False)
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = OpenAIAgentsInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        await run_agent(model, RUNS[name], [invert])
    finally:
        instrumentor.uninstrument()
    check_run(MessageToJson(encode_spans(exporter.get_finished_spans())).encode(), name, "otel")


@pytest.mark.parametrize("name", RUNS)
async def test_its_traces_of_chat_completions_are_read(name: str) -> None:
    set_tracing_disabled(False)
    recorder = Recorder()
    set_trace_processors([recorder])
    replies = iter(RUNS[name])
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=write_completion(next(replies))))
    http_client: Any = httpx.AsyncClient(transport=transport)
    async with AsyncOpenAI(base_url="http://scripted", api_key="none", http_client=http_client) as client:
        completions = OpenAIChatCompletionsModel("scripted", client)
        await Runner.run(Agent(name="Solver", instructions="Be brief.", model=completions, tools=[invert]), TASK)
    check_run("\n".join(map(json.dumps, recorder.objects)).encode(), name, "agents_sdk")


@pytest.mark.parametrize("name", RUNS)
async def test_its_traces_without_messages_are_refused(model: AgentModel, name: str) -> None:
    """Spans of the Responses API contain no messages, and the error says what to write instead."""
    set_tracing_disabled(False)
    recorder = Recorder()
    set_trace_processors([recorder])
    await run_agent(model, RUNS[name], [invert])
    content = "\n".join(map(json.dumps, recorder.objects)).encode()
    with pytest.raises(MalformedTrajectory, match=r"write result\.to_input_list\(\) instead"):
        read_trajectories(content, "frameworks")
