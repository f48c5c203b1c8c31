"""Reads runs of LangSmith, as `Client.list_runs` returns them, with their feedback: each trace is one trajectory.

Source of the format: https://github.com/langchain-ai/langsmith-sdk, python/langsmith/schemas.py (Run, Feedback). The
conversation is that of the root run if its outputs have messages, as those of a LangGraph agent do, else that of the
calls of models. The outcome is a feedback, also one that only `feedback_stats` counts; else an error of the root run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from services.reflector.adapters.importers import otel
from services.reflector.adapters.importers.json_records import Record, join_content, to_json_text
from services.reflector.adapters.importers.message_parts import Message, read_messages
from services.reflector.adapters.importers.otlp import Span, Value
from services.reflector.adapters.importers.scores import Score, choose_outcome
from services.reflector.adapters.importers.span_usage import encode_usage
from services.reflector.adapters.importers.step_collector import mark_as_error
from services.reflector.adapters.importers.trace_records import (
    build_agent,
    build_model_call,
    build_tool_call,
    read_nanoseconds,
)
from services.reflector.adapters.importers.usage import read_usage
from services.reflector.domain.recorded_trajectory import RecordedTrajectory

_PERSON = ("app",)
"""Sources of feedback that are people: the user interface."""


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is neither a run nor a feedback."""
    if _is_feedback(record):
        return
    for name in ("run_type", "trace_id", "dotted_order"):
        if not isinstance(record.value.get(name), str):
            raise record.build_error(name, "must be text: a run of LangSmith has it")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectory of each trace. Raise MalformedTrajectory with the run and its field."""
    traces: dict[str, list[Record]] = {}
    trace_of: dict[str, str] = {}
    feedbacks: list[Record] = []
    for record in records:
        check_format(record)
        if _is_feedback(record):
            feedbacks.append(record)
        else:
            trace = trace_of[record.get_text("id")] = record.get_text("trace_id")
            traces.setdefault(trace, []).append(record)
    feedbacks_of: defaultdict[str | None, list[Record]] = defaultdict(list)
    for feedback in feedbacks:
        feedbacks_of[trace_of.get(feedback.get_text("run_id"))].append(feedback)
    for trace, runs in traces.items():
        runs.sort(key=lambda run: run.get_text("dotted_order"))
        spans = [_read_span(run) for run in runs]
        if any(otel.has_messages(span) for span in spans):
            scores = list(_read_scores(runs[0], feedbacks_of[trace]))
            yield otel.read_trace(trace, _choose_conversation(spans), dataset, choose_outcome(scores, "LangSmith"))


def _is_feedback(record: Record) -> bool:
    return record.has("key") and record.has("run_id") and not record.has("run_type")


def _choose_conversation(spans: Sequence[Span]) -> list[Span]:
    """Return the spans; only the root has messages if its outputs are the whole conversation."""
    root = spans[0]
    if not root.attributes.get("hansei.whole_conversation"):
        return list(spans)
    rest = [replace(span, attributes=_drop_messages(span.attributes)) for span in spans[1:]]
    return [replace(root, attributes={**root.attributes, "gen_ai.input.messages": []}), *rest]


def _drop_messages(attributes: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in attributes.items() if not name.endswith(".messages")}


def _read_span(run: Record) -> Span:
    return Span(
        location=run.location,
        trace=run.get_text("trace_id"),
        id=run.require_text("id", "must name the run"),
        parent=run.get_text("parent_run_id"),
        start=read_nanoseconds(run, "start_time"),
        attributes=_read_attributes(run),
        error=run.get_text("error").partition("Traceback")[0].strip() or "failed" if run.has("error") else None,
    )


def _read_attributes(run: Record) -> dict[str, Value]:
    kind = run.get_text("run_type")
    inputs, outputs = run.get_child_or_empty("inputs"), run.get_child_or_empty("outputs")
    if kind == "tool":
        result = outputs.value.get("output", outputs.value or None)
        message = Record(result, outputs.build_path("output")) if isinstance(result, dict) else None
        body = (message.get_child("kwargs") or message) if message else None
        call_id = body.get_text("tool_call_id") if body else ""
        text = join_content(body) if body and call_id else result
        if body and body.value.get("status") == "error":
            text = mark_as_error(to_json_text(text))
        arguments = inputs.value.get("input") if list(inputs.value) == ["input"] else inputs.value
        return build_tool_call(run.get_text("name"), call_id, arguments, text)
    if kind != "llm" and run.has("parent_run_id"):
        return {}
    messages_in = _read_side(inputs, "user", ("messages", "prompts", "prompt", "input", "question", "query"))
    messages_out = _read_side(
        outputs, "assistant", ("messages", "generations", "choices", "message", "output", "answer")
    )
    usage = encode_usage(read_usage(run))
    if kind == "llm":
        return {**build_model_call(messages_in, messages_out or _read_whole(outputs)), **usage}
    is_whole = len(messages_out) > 1 and isinstance(outputs.value.get("messages"), list)
    whole: dict[str, Value] = {"hansei.whole_conversation": True} if is_whole else {}
    return {**build_agent("", messages_in, messages_out), **whole, **usage}


def _read_side(side: Record, role: str, names: Sequence[str]) -> list[Message]:
    for name in names:
        value = side.value.get(name)
        if value is None or value in ([], ""):
            continue
        location = side.build_path(name)
        if name in ("generations", "choices") and isinstance(value, list):
            generations = value[0] if isinstance(value[0], list) else value
            value = [_get_message(item) for item in generations]
        elif name == "prompts":
            value = value[0] if isinstance(value, list) else value
        return read_messages(value, location, "assistant" if role == "assistant" else "user")
    return []


def _read_whole(outputs: Record) -> list[Message]:
    has_role = "role" in outputs.value or "content" in outputs.value
    return read_messages(outputs.value, outputs.location, "assistant") if has_role else []


def _get_message(item: object) -> object:
    return item.get("message") or item.get("text") if isinstance(item, dict) else item


def _read_scores(root: Record, feedbacks: Sequence[Record]) -> Iterator[Score]:
    stats = root.get_child_or_empty("feedback_stats")
    for name in stats.value:
        entry = stats.get_child(name)
        if entry is not None and entry.get_number("avg") is not None:
            yield Score(name, entry.get_number("avg"))
    for feedback in feedbacks:
        source = feedback.get_child("feedback_source")
        value = feedback.value.get("score")
        yield Score(
            feedback.get_text("key"),
            feedback.value.get("value") if value is None else value,
            feedback.get_text("comment"),
            source is not None and source.get_text("type") in _PERSON,
        )
