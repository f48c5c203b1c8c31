"""Spans of OpenInference and OpenLLMetry, exported by the OpenTelemetry SDK, and evaluations as outcomes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.outcome import determine_outcome
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.tests.test_otel_spans import export_spans

CALLS = {"c1": '{"x": 0}', "c2": '{"x": 2}'}
RESULTS = {"c1": "x must not be 0", "c2": "0.5"}
CONVERSATION = [
    ("system", "be exact"),
    ("user", "invert something"),
    ("assistant", ""),
    ("tool", "Error: x must not be 0"),
    ("assistant", ""),
    ("tool", "0.5"),
    ("assistant", "It is 0.5."),
]


class Trace:
    """A trace of one agent, whose spans the SDK exports."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._tracer = provider.get_tracer("test")

    @contextmanager
    def span(self, name: str, attributes: dict[str, Any], *, failed: bool = False) -> Iterator[Any]:
        """Yield a span around the block, or of its own."""
        with self._tracer.start_as_current_span(name, attributes=attributes) as span:
            yield span
            if failed:
                span.set_status(Status(StatusCode.ERROR, "ValueError"))

    def add(self, name: str, attributes: dict[str, Any], *, failed: bool = False) -> None:
        """A span without children."""
        with self.span(name, attributes, failed=failed):
            pass

    def read(self) -> RecordedTrajectory:
        """Return the trajectory of the trace."""
        (recorded,) = read_trajectories(json.dumps(export_spans(self._exporter)).encode(), "given").trajectories
        return recorded


def steps(recorded: RecordedTrajectory) -> list[tuple[str, str]]:
    return [(step.role, step.content) for step in recorded.trajectory.steps]


def openinference_messages(side: str, *messages: dict[str, Any]) -> dict[str, Any]:
    """Messages as numbered attributes: a call is written as its id."""
    attributes: dict[str, Any] = {}
    for number, message in enumerate(messages):
        prefix = f"llm.{side}_messages.{number}.message"
        for name, value in message.items():
            if name == "call":
                call = f"{prefix}.tool_calls.0.tool_call"
                attributes |= {f"{call}.id": value, f"{call}.function.name": "invert"}
                attributes[f"{call}.function.arguments"] = CALLS[value]
            else:
                attributes[f"{prefix}.{name}"] = value
    return attributes


def record_openinference(trace: Trace, evaluation: dict[str, Any] | None = None) -> None:
    sent: list[dict[str, Any]] = [
        {"role": "system", "content": "be exact"},
        {
            "role": "user",
            "contents.0.message_content.type": "text",
            "contents.0.message_content.text": "invert something",
        },
    ]
    with trace.span("agent", {"openinference.span.kind": "AGENT", "agent.name": "inverter", **(evaluation or {})}):
        for call_id, arguments in CALLS.items():
            reply = {"role": "assistant", "call": call_id}
            conversation = openinference_messages("input", *sent) | openinference_messages("output", reply)
            trace.add("generation", {"openinference.span.kind": "LLM", **conversation})
            attributes = {"openinference.span.kind": "TOOL", "tool.name": "invert"}
            values = {"input.value": arguments, "output.value": RESULTS[call_id]}
            trace.add("invert", attributes | values, failed=call_id == "c1")
            sent += [reply, {"role": "tool", "tool_call_id": call_id, "content": RESULTS[call_id]}]
        answer = openinference_messages("output", {"role": "assistant", "content": "It is 0.5."})
        trace.add("generation", {"openinference.span.kind": "LLM", **openinference_messages("input", *sent), **answer})


def test_spans_of_openinference_are_a_conversation() -> None:
    trace = Trace()
    record_openinference(trace)
    recorded = trace.read()
    assert steps(recorded) == CONVERSATION
    assert [step.name for step in recorded.trajectory.steps if step.role == "assistant"] == ["inverter"] * 3
    assert [call.arguments for step in recorded.trajectory.steps for call in step.tool_calls] == list(CALLS.values())
    assert recorded.trajectory.query == "invert something"


@pytest.mark.parametrize(
    ("evaluation", "is_success", "signal"),
    [
        ({"evaluations.0.evaluation.name": "correct", "evaluations.0.evaluation.score": 0.0}, False, "reward"),
        (
            {"annotations.0.annotation.name": "correct", "annotations.0.annotation.label": "incorrect"},
            False,
            "test_report",
        ),
        ({"gen_ai.evaluation.name": "correct", "gen_ai.evaluation.score.value": 1.0}, True, "reward"),
        ({"gen_ai.evaluation.name": "correct", "gen_ai.evaluation.score.label": "passed"}, True, "test_report"),
        ({}, True, "self_report"),
    ],
)
def test_an_evaluation_is_the_outcome(evaluation: dict[str, Any], is_success: bool, signal: str) -> None:
    trace = Trace()
    record_openinference(trace, evaluation)
    recorded = trace.read()
    outcome = determine_outcome(recorded.trajectory, recorded.ground_truth, recorded.test_report)
    assert (outcome.is_success, outcome.signal) == (is_success, signal)


def test_a_trace_with_only_the_span_of_an_agent_has_its_question_and_answer() -> None:
    trace = Trace()
    attributes = {"openinference.span.kind": "AGENT", "input.value": "invert something", "output.value": "It is 0.5."}
    trace.add("agent", attributes)
    assert steps(trace.read()) == [("user", "invert something"), ("assistant", "It is 0.5.")]


def test_spans_of_openllmetry_are_a_conversation() -> None:
    trace = Trace()
    sent: list[dict[str, str]] = [
        {"role": "system", "content": "be exact"},
        {"role": "user", "content": "invert something"},
    ]
    with trace.span("workflow", {"traceloop.span.kind": "workflow"}):
        for call_id, arguments in CALLS.items():
            call = {"tool_calls.0.id": call_id, "tool_calls.0.name": "invert", "tool_calls.0.arguments": arguments}
            reply = {"role": "assistant", **call}
            trace.add(
                "openai.chat", number_messages("gen_ai.prompt", sent) | number_messages("gen_ai.completion", [reply])
            )
            values = {"traceloop.entity.input": arguments, "traceloop.entity.output": RESULTS[call_id]}
            attributes = {"traceloop.span.kind": "tool", "traceloop.entity.name": "invert", **values}
            trace.add("invert.tool", attributes, failed=call_id == "c1")
            sent += [reply, {"role": "tool", "tool_call_id": call_id, "content": RESULTS[call_id]}]
        answer = [{"role": "assistant", "content": "It is 0.5."}]
        trace.add("openai.chat", number_messages("gen_ai.prompt", sent) | number_messages("gen_ai.completion", answer))
    assert steps(trace.read()) == CONVERSATION


def number_messages(prefix: str, messages: list[dict[str, str]]) -> dict[str, str]:
    return {
        f"{prefix}.{number}.{name}": value for number, message in enumerate(messages) for name, value in message.items()
    }
