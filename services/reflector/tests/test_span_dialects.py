"""Spans of OpenInference, OpenLLMetry and Langfuse, exported by the OpenTelemetry SDK, and evaluations as outcomes."""

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

    def export(self) -> Any:
        """Return the spans so far as OTLP JSON."""
        return export_spans(self._exporter)

    def read(self) -> RecordedTrajectory:
        """Return the trajectory of the trace."""
        (recorded,) = read_trajectories(json.dumps(self.export()).encode(), "given").trajectories
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
    assert ("\nSource: the evaluation correct is " in recorded.test_report) is bool(evaluation)


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


def test_a_tool_of_langchain_in_openllmetry_is_joined_with_its_call() -> None:
    """OpenLLMetry 0.62 writes what LangChain's callbacks get: the arguments and the message of the result inside."""
    trace = Trace()
    user = {"role": "user", "parts": [{"type": "text", "content": "invert something"}]}
    call = {"type": "tool_call", "id": "c1", "name": "invert", "arguments": {"x": 0}}
    chat = {"traceloop.entity.path": "model", "gen_ai.operation.name": "chat"}
    chat["gen_ai.input.messages"] = json.dumps([user])
    chat["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": [call]}])
    arguments = {"input_str": "{'x': 0}", "tags": ["seq:step:1"], "metadata": {}, "inputs": {"x": 0}}
    message = {"content": "x must not be 0", "type": "tool", "tool_call_id": "c1", "status": "error"}
    result = {"output": {"lc": 1, "type": "constructor", "kwargs": message}, "kwargs": {"color": "green"}}
    tool = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "invert",
        **dict.fromkeys(("traceloop.entity.input", "gen_ai.tool.call.arguments"), json.dumps(arguments)),
        **dict.fromkeys(("traceloop.entity.output", "gen_ai.tool.call.result"), json.dumps(result)),
    }
    with trace.span("LangGraph.workflow", {"traceloop.span.kind": "workflow"}):
        trace.add("Model.chat", chat)
        trace.add("execute_tool invert", tool)
    recorded = trace.read()
    assert steps(recorded) == [
        ("user", "invert something"),
        ("assistant", ""),
        ("tool", "Error: x must not be 0"),
    ]
    assert [call.arguments for step in recorded.trajectory.steps for call in step.tool_calls] == ['{"x": 0}']


def test_an_agent_without_calls_of_models_answers_after_its_tools() -> None:
    trace = Trace()
    for question, answer in (("invert something", "It is 0.5."), ("and now?", "The same.")):
        messages = {
            f"gen_ai.{side}.messages": json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
            for side, role, text in (("input", "user", question), ("output", "assistant", answer))
        }
        tool = {"gen_ai.tool.name": "invert", "gen_ai.tool.call.id": question, "gen_ai.tool.call.result": "0.5"}
        with trace.span("program", {}), trace.span("agent", {"gen_ai.operation.name": "invoke_agent", **messages}):
            trace.add("execute_tool invert", {"gen_ai.operation.name": "execute_tool", **tool})
        if question == "invert something":
            assert steps(trace.read()) == [
                ("user", question),
                ("assistant", ""),
                ("tool", "0.5"),
                ("assistant", answer),
            ]
    first, second = read_trajectories(json.dumps(trace.export()).encode(), "given").trajectories
    assert [step.role for step in second.trajectory.steps] == ["user", "assistant", "tool", "assistant"]
    assert (first.trajectory.generated_answer, second.trajectory.generated_answer) == ("It is 0.5.", "The same.")


def test_observations_in_spans_of_langfuse_are_a_conversation() -> None:
    """Langfuse's client 4 exports each observation as a span; its input and its output are JSON texts."""
    trace = Trace()
    sent: list[dict[str, Any]] = [
        {"role": "system", "content": "be exact"},
        {"role": "user", "content": "invert something"},
    ]

    def observe(kind: str, taken: Any, returned: Any, **more: Any) -> dict[str, Any]:
        values = {"type": kind, "input": json.dumps(taken), "output": json.dumps(returned), **more}
        return {f"langfuse.observation.{name}": value for name, value in values.items()}

    root = observe("chain", {"messages": [["user", "invert something"]]}, None) | {
        "langfuse.internal.is_app_root": True
    }
    with trace.span("LangGraph", root):
        for call_id, arguments in CALLS.items():
            call = {"name": "invert", "args": json.loads(arguments), "id": call_id, "type": "tool_call"}
            reply = {"role": "assistant", "content": "", "tool_calls": [call]}
            trace.add("Model", observe("generation", sent, reply, usage_details='{"input": 3, "output": 2}'))
            result = {"type": "tool", "content": RESULTS[call_id], "tool_call_id": call_id}
            trace.add("invert", observe("tool", json.loads(arguments), result), failed=call_id == "c1")
            sent += [reply, {"role": "tool", "content": RESULTS[call_id], "tool_call_id": call_id}]
        trace.add("Model", observe("generation", sent, {"role": "assistant", "content": "It is 0.5."}))
    recorded = trace.read()
    assert steps(recorded) == CONVERSATION
    usage = recorded.trajectory.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (6, 4)
