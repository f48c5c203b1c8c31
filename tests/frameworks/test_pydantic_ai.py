"""Pydantic AI with its own offline model: the adapter, and the files that it writes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frameworks.scripted_runs import ANSWER, LESSON, RUNS, TASK, ScriptedMemory, check_memory, check_run

pytest.importorskip("pydantic_ai", reason="the frameworks are not installed: make test-frameworks")
from google.protobuf.json_format import MessageToJson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.capabilities.instrumentation import Instrumentation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

from hansei.client.adapters import pydantic_ai as adapter


def build_agent(replies: list[int | str], instructions: list[str | None], **options: Any) -> Any:
    remaining = iter(replies)

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        instructions.append(info.instructions)
        chosen = next(remaining)
        part = TextPart(chosen) if isinstance(chosen, str) else ToolCallPart("invert", {"x": chosen})
        return ModelResponse(parts=[part])

    agent: Any = Agent(FunctionModel(reply), **options)

    @agent.tool_plain
    def invert(x: int) -> float:
        if x == 0:
            raise ModelRetry("x must not be 0")
        return 1 / x

    return agent


async def test_an_agent_uses_the_memory() -> None:
    memory = ScriptedMemory()
    instructions: list[str | None] = []
    agent = build_agent([0, 2, ANSWER], instructions, capabilities=[adapter.PlaybookCapability(memory)])
    adapter.report(memory, await agent.run(TASK), succeeded=True)
    assert instructions == [LESSON] * 3
    check_memory(memory, "pydantic_ai")


@pytest.mark.parametrize("name", RUNS)
async def test_its_messages_are_read(name: str) -> None:
    result = await build_agent(RUNS[name], []).run(TASK)
    check_run(result.all_messages_json(), name, "pydantic_ai")


@pytest.mark.parametrize("name", RUNS)
async def test_its_spans_of_the_genai_conventions_are_read(name: str) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    settings = InstrumentationSettings(tracer_provider=provider)
    await build_agent(RUNS[name], [], capabilities=[Instrumentation(settings)]).run(TASK)
    check_run(MessageToJson(encode_spans(exporter.get_finished_spans())).encode(), name, "otel")
