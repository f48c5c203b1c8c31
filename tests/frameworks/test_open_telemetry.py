"""Spans and events that the instrumentations of OpenTelemetry and of OpenLLMetry write for OpenAI and LangChain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.frameworks.scripted_runs import RUNS, TASK, check_run

pytest.importorskip("opentelemetry.instrumentation", reason="the frameworks are not installed: make test-frameworks")
from google.protobuf.json_format import MessageToJson
from langchain.agents import create_agent
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.instrumentation import openai as openllmetry
from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.instrumentation.langchain import LangchainInstrumentor
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.frameworks.test_langgraph import build_model, invert
from tests.frameworks.test_openai import converse


class Recording:
    """Providers whose spans and log records are kept."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
        self.tracer_provider, self.logger_provider = TracerProvider(), LoggerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self.logs))

    @contextmanager
    def instrument(self, instrumentor: Any) -> Iterator[None]:
        """Instrument a library, with one trace around the block."""
        providers = {"tracer_provider": self.tracer_provider, "logger_provider": self.logger_provider}
        instrumentor.instrument(**providers)
        try:
            with self.tracer_provider.get_tracer("tests").start_as_current_span("program"):
                yield
        finally:
            instrumentor.uninstrument()

    def encode(self) -> bytes:
        """Return the exports of spans and of logs, one a line."""
        exports = [encode_spans(self.spans.get_finished_spans()), encode_logs(self.logs.get_finished_logs())]
        documents = [json.loads(MessageToJson(export)) for export in exports]
        return "\n".join(json.dumps(document) for document in documents if document).encode()


def run_agent(name: str) -> None:
    agent = create_agent(build_model(RUNS[name]), [invert], system_prompt="Be brief.")
    agent.invoke({"messages": [("user", TASK)]})


@pytest.mark.parametrize("name", RUNS)
def test_spans_of_openllmetry_for_openai_are_read(name: str) -> None:
    recording = Recording()
    with recording.instrument(openllmetry.OpenAIInstrumentor()):
        converse(RUNS[name])
    check_run(recording.encode(), name, "otel")


@pytest.fixture(scope="module")
def langchain() -> Iterator[Recording]:
    """Instrument LangChain once: OpenLLMetry does not instrument it again after `uninstrument`."""
    recording, instrumentor = Recording(), LangchainInstrumentor()
    instrumentor.instrument(tracer_provider=recording.tracer_provider)
    yield recording
    instrumentor.uninstrument()


@pytest.mark.parametrize("name", RUNS)
def test_spans_of_openllmetry_for_langchain_are_read(langchain: Recording, name: str) -> None:
    langchain.spans.clear()
    run_agent(name)
    check_run(langchain.encode(), name, "otel")


@pytest.fixture(params=["span_only", "event_only", "span_and_event"])
def with_contents(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let instrumentations write contents to spans, to events, or to both."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", request.param)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT", "true")


@pytest.mark.usefixtures("with_contents")
@pytest.mark.parametrize("name", RUNS)
def test_genai_conventions_for_openai_are_read(name: str) -> None:
    recording = Recording()
    with recording.instrument(OpenAIInstrumentor()):
        converse(RUNS[name])
    check_run(recording.encode(), name, "otel")


@pytest.mark.parametrize("name", RUNS)
def test_spans_of_agents_and_tools_without_calls_of_models_are_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The instrumentation leaves out models of providers that it does not know, and errors that LangChain handles."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only")
    recording = Recording()
    with recording.instrument(LangChainInstrumentor()):
        run_agent(name)
    check_run(recording.encode(), name, "otel", error="x must not be 0")
