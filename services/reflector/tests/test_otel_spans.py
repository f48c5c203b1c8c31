"""OpenTelemetry GenAI spans as the SDK's own exporter writes them, as OTLP JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from libs.trajectories.actions import extract_actions
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory


def read(value: object) -> RecordedTrajectory:
    file = read_trajectories(json.dumps(value).encode(), "given")
    assert file.format == "otel"
    (recorded,) = file.trajectories
    return recorded


def refusal(value: object) -> str:
    with pytest.raises(MalformedTrajectory) as caught:
        read_trajectories(json.dumps(value).encode(), "given")
    return str(caught.value)


def messages(*parts_by_role: tuple[str, Any]) -> str:
    return json.dumps(
        [{"role": role, "parts": [parts] if isinstance(parts, dict) else parts} for role, parts in parts_by_role]
    )


def text(content: str) -> dict[str, str]:
    return {"type": "text", "content": content}


def export_spans(exporter: InMemorySpanExporter) -> dict[str, Any]:
    """Return the request of the SDK's exporter as OTLP JSON, in which ids are hexadecimal."""
    request: dict[str, Any] = MessageToDict(encode_spans(exporter.get_finished_spans()))
    by_id = {format(span.context.span_id, "016x"): span for span in exporter.get_finished_spans()}
    encoded = [
        span for resource in request["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]
    ]
    for span, (span_id, original) in zip(encoded, by_id.items(), strict=True):
        assert span["name"] == original.name
        span["spanId"], span["traceId"] = span_id, format(original.context.trace_id, "032x")
        span["parentSpanId"] = format(original.parent.span_id, "016x") if original.parent else ""
    return request


@pytest.fixture
def spans() -> tuple[trace.Tracer, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter


CALL = {"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": {"city": "Olso"}}
ANSWER = {"type": "tool_call_response", "id": "c1", "response": "Error: no such city"}


def weather_agent(tracer: trace.Tracer, *, failed: bool = False) -> None:
    """Return an agent that calls a model twice and a tool between."""
    operation = "gen_ai.operation.name"
    with tracer.start_as_current_span("invoke_agent weather") as agent:
        agent.set_attributes({operation: "invoke_agent", "gen_ai.agent.name": "weather"})
        agent.set_attribute("gen_ai.output.messages", messages(("assistant", text("It is cold."))))
        with tracer.start_as_current_span("chat m") as chat:
            chat.set_attributes(
                {
                    operation: "chat",
                    "gen_ai.system_instructions": json.dumps([text("Be brief.")]),
                    "gen_ai.input.messages": messages(("user", text("Weather?"))),
                    "gen_ai.output.messages": messages(("assistant", [{"type": "reasoning", "content": "ask"}, CALL])),
                }
            )
        with tracer.start_as_current_span("execute_tool get_weather") as tool:
            tool.set_attributes(
                {operation: "execute_tool", "gen_ai.tool.name": "get_weather", "gen_ai.tool.call.id": "c1"}
            )
        with tracer.start_as_current_span("GET") as request:
            request.set_attribute("http.request.method", "GET")
        with tracer.start_as_current_span("chat m") as chat:
            sent_messages = messages(("user", text("Weather?")), ("assistant", CALL), ("tool", ANSWER))
            chat.set_attributes(
                {
                    operation: "chat",
                    "gen_ai.input.messages": sent_messages,
                    "gen_ai.output.messages": messages(("assistant", text("It is cold."))),
                }
            )
        if failed:
            agent.set_status(trace.StatusCode.ERROR, "the weather is unknown")


class TestOtel:
    def test_a_conversation_that_each_call_repeats_is_recorded_once(
        self, spans: tuple[trace.Tracer, InMemorySpanExporter]
    ) -> None:
        weather_agent(spans[0])
        trajectory = read(export_spans(spans[1])).trajectory
        assert [(step.role, step.name, step.content) for step in trajectory.steps] == [
            ("system", "", "Be brief."),
            ("user", "", "Weather?"),
            ("assistant", "weather", "ask"),
            ("tool", "get_weather", "Error: no such city"),
            ("assistant", "weather", "It is cold."),
        ]
        assert trajectory.steps[2].tool_calls[0].arguments == '{"city": "Olso"}'
        assert trajectory.id == format(spans[1].get_finished_spans()[0].context.trace_id, "032x")
        assert (trajectory.query, trajectory.generated_answer) == ("Weather?", "It is cold.")
        assert (trajectory.status, trajectory.error_message) == ("success", None)
        assert "gen_ai.output.messages[0]" in trajectory.steps[2].source

    def test_each_trace_is_a_trajectory_in_any_order_of_spans(
        self, spans: tuple[trace.Tracer, InMemorySpanExporter]
    ) -> None:
        weather_agent(spans[0])
        weather_agent(spans[0], failed=True)
        whole = export_spans(spans[1])
        (resource,) = whole["resourceSpans"]
        (scope,) = resource["scopeSpans"]
        lines = [
            {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
            for span in sorted(scope["spans"], key=lambda span: str(span["spanId"]))
        ]
        in_lines = read_trajectories("\n".join(map(json.dumps, lines)).encode(), "given")
        in_one = read_trajectories(json.dumps(whole).encode(), "given")
        assert [len(recorded.trajectory.steps) for recorded in in_lines.trajectories] == [5, 5]
        assert {recorded.trajectory.id: recorded.trajectory.status for recorded in in_lines.trajectories} == {
            recorded.trajectory.id: recorded.trajectory.status for recorded in in_one.trajectories
        }
        assert sorted(recorded.trajectory.error_message or "" for recorded in in_lines.trajectories) == [
            "",
            "the weather is unknown",
        ]

    def test_facts_of_only_a_tools_span_are_read(self, spans: tuple[trace.Tracer, InMemorySpanExporter]) -> None:
        tracer, exporter = spans
        with tracer.start_as_current_span("invoke_agent shop") as agent:
            agent.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"})
            agent.set_attribute("gen_ai.input.messages", messages(("user", text("Order pens."))))
            with tracer.start_as_current_span("execute_tool order") as tool:
                tool.set_attributes(
                    {
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": "order",
                        "gen_ai.tool.call.arguments": '{"pens": "two"}',
                    }
                )
                tool.set_status(trace.StatusCode.ERROR, "pens must be a number")
        trajectory = read(export_spans(exporter)).trajectory
        (action,) = extract_actions(trajectory.steps)
        assert (action.agent, action.tool, action.arguments) == ("shop", "order", '{"pens": "two"}')
        assert action.message == "Error: pens must be a number"

    def test_spans_without_contents_are_refused(self, spans: tuple[trace.Tracer, InMemorySpanExporter]) -> None:
        with spans[0].start_as_current_span("chat m") as chat:
            chat.set_attribute("gen_ai.operation.name", "chat")
        assert "enable the recording of contents" in refusal(export_spans(spans[1]))

    def test_a_trace_without_model_calls_is_no_trajectory(
        self, spans: tuple[trace.Tracer, InMemorySpanExporter]
    ) -> None:
        with spans[0].start_as_current_span("GET"):
            pass
        assert "holds no trajectory of the format otel" in refusal(export_spans(spans[1]))

    @pytest.mark.parametrize(
        ("span", "complaint"),
        [
            ({}, "spans[0].traceId: null must not be empty"),
            ({"traceId": "1", "spanId": "2", "startTimeUnixNano": "soon"}, "startTimeUnixNano: 'soon' must be"),
            (
                {
                    "traceId": "1",
                    "spanId": "2",
                    "attributes": [
                        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                        {"key": "gen_ai.input.messages", "value": {"stringValue": "[{"}},
                    ],
                },
                "spans[0].gen_ai.input.messages: '[{' is not JSON",
            ),
        ],
    )
    def test_an_error_names_the_field_that_breaks_the_format(self, span: dict[str, Any], complaint: str) -> None:
        assert complaint in refusal({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})

    @pytest.mark.parametrize("top", ["0", "nobody"])
    def test_the_agent_of_a_deep_chain_is_found_and_a_circle_ends(self, top: str) -> None:
        def attribute(key: str, value: str) -> dict[str, Any]:
            return {"key": key, "value": {"stringValue": value}}

        depth = 3_000
        chain: list[dict[str, Any]] = [
            {
                "traceId": "t",
                "spanId": str(number),
                "parentSpanId": str(number - 1) if number else top if top == "nobody" else str(depth - 1),
                "attributes": [
                    attribute("gen_ai.operation.name", "execute_tool"),
                    attribute("gen_ai.tool.name", "look"),
                ],
            }
            for number in range(depth)
        ]
        if top == "nobody":
            chain[0]["attributes"].append(attribute("gen_ai.agent.name", "deep"))
        chain[-1]["attributes"] += [
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.input.messages", messages(("user", text("Look.")))),
        ]
        steps = read({"resourceSpans": [{"scopeSpans": [{"spans": chain}]}]}).trajectory.steps
        agents = {step.name for step in steps if step.role == "assistant"}
        assert agents == ({"deep"} if top == "nobody" else {""})
