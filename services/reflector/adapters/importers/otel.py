"""Reads OpenTelemetry spans and events of the GenAI semantic conventions: each trace is one trajectory.

Source of the format: https://github.com/open-telemetry/semantic-conventions, docs/gen-ai (gen-ai-spans.md,
gen-ai-agent-spans.md, gen-ai-input-messages.json, gen-ai-output-messages.json). Every model call repeats the
conversation so far, so only new messages become steps. Recording of contents is optional; a trace without contents is
rejected. The last evaluation of a trace is its outcome: a score from 0 to 1 is the reward, a label a test report;
without one, the status of the root span is. Spans of searches in playbooks name the served bullets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from services.reflector.adapters.importers.json_records import Record, build_model, read_call, to_json_text
from services.reflector.adapters.importers.messages import find_query
from services.reflector.adapters.importers.otlp import Span, Value, read_spans
from services.reflector.adapters.importers.otlp_logs import add_events, read_events
from services.reflector.adapters.importers.span_dialects import translate
from services.reflector.adapters.importers.span_usage import sum_span_usages
from services.reflector.adapters.importers.step_collector import (
    RecordedOutcome,
    StepCollector,
    build_recorded_trajectory,
    mark_as_error,
)
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.outcome import REWARD_OF_SUCCESS, determine_outcome
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import MAX_BULLET_IDS, MAX_QUERY_CHARS, MAX_SERVINGS, Role, ToolCall
from services.reflector.domain.usage import TrajectoryUsage

_OPERATION = "gen_ai.operation.name"
SERVING, MEMORY_PROVIDER = "hansei.serving_id", "hansei"
"""The attribute with the serving of a search in a playbook, and the provider of such searches."""
_SEARCH, _RECORDS, _BULLET_IDS = "search_memory", "gen_ai.memory.records", "hansei.bullet_ids"
_MODEL, _AGENT, _TOOL = frozenset({"chat", "generate_content", "text_completion"}), "invoke_agent", "execute_tool"
_INSTRUCTIONS, _INPUT, _OUTPUT = "gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"
_CONTENTS = (_INPUT, _OUTPUT)
_EVALUATIONS = ("gen_ai.evaluation", "evaluations.0.evaluation", "annotations.0.annotation")
"""The prefixes of the attributes of an evaluation: of the GenAI conventions and of OpenInference."""
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
}


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is not an OTLP export of spans or of logs."""
    record.require_list("resourceLogs" if record.has("resourceLogs") else "resourceSpans")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectories of a file, in the order of their traces. Raise MalformedTrajectory with the span."""
    traces: dict[str, list[Span]] = {}
    events: dict[str, list[Span]] = {}
    for record in records:
        check_format(record)
        for span in map(translate, read_spans(record)):
            traces.setdefault(span.trace, []).append(span)
        for event in read_events(record):
            traces.setdefault(event.trace, [])
            events.setdefault(event.trace, []).append(event)
    for trace, spans in traces.items():
        joined = add_events(spans, events.get(trace, []))
        if any(span.get_text(_OPERATION) in {*_MODEL, _AGENT, _TOOL} for span in joined):
            yield read_trace(trace, joined, dataset)


def read_trace(
    trace: str, spans: Sequence[Span], dataset: str, outcome: RecordedOutcome | None = None
) -> RecordedTrajectory:
    """Return the trajectory of the spans of one trace, with this outcome or else that of its last evaluation.

    Raise MalformedTrajectory with the span.
    """
    spans = sorted(spans, key=lambda span: span.start)
    location = f"trace {trace}"
    collector = _TraceSteps(location, spans).collector
    if not collector.steps:
        rule = f"has no contents: no span has {_INPUT} or {_OUTPUT}; enable the recording of contents"
        raise MalformedTrajectory(location, "", rule)
    span_ids = {span.id for span in spans}
    roots = [span for span in spans if span.parent not in span_ids]
    error = next((span.error for span in roots if span.error is not None), None)
    recorded = build_recorded_trajectory(
        Record(_find_evaluation(spans), location),
        dataset,
        collector.steps,
        outcome,
        id=trace,
        query=find_query(Record({}, location), collector.steps),
        generated_answer=collector.answer,
        **({} if error is None else {"status": "failure"}),
        error_message=error[:MAX_QUERY_CHARS] if error else None,
        created_at=_get_start_time(spans[0]),
        usage=_read_usage(spans, location),
        **_read_servings(spans),
    )
    return recorded if outcome else _apply_report(recorded)


def _read_usage(spans: Sequence[Span], location: str) -> TrajectoryUsage | None:
    """Return the usage of the model calls of a trace; if they state none, that of its agents, which sum their calls."""
    usage = sum_span_usages((span for span in spans if span.get_text(_OPERATION) in _MODEL), location)
    return usage or sum_span_usages((span for span in spans if span.get_text(_OPERATION) == _AGENT), location)


def _apply_report(recorded: RecordedTrajectory) -> RecordedTrajectory:
    """Return a trajectory with the status that its test report shows: an evaluation that has only a label."""
    verdict = determine_outcome(recorded.trajectory, recorded.ground_truth, recorded.test_report)
    if verdict.signal != "test_report":
        return recorded
    status = "success" if verdict.is_success else "failure"
    return replace(recorded, trajectory=recorded.trajectory.model_copy(update={"status": status}))


def _read_servings(spans: Sequence[Span]) -> dict[str, object]:
    """Return the servings and the served bullets of a trace, from the spans of searches in playbooks."""
    searches = [
        span
        for span in spans
        if span.get_text(_OPERATION) == _SEARCH and span.get_text("gen_ai.provider.name") == MEMORY_PROVIDER
    ]
    records = [
        Record(value, f"{span.location}.{_RECORDS}[{index}]")
        for span in searches
        for index, value in enumerate(_parse_list(span, _RECORDS))
    ]
    listed = [span.attributes.get(_BULLET_IDS) for span in searches]
    named = [str(bullet_id) for ids in listed if isinstance(ids, list) for bullet_id in ids]
    bullet_ids = dict.fromkeys([*named, *(record.get_text("id") for record in records if record.get_text("id"))])
    servings = dict.fromkeys(span.get_text(SERVING) for span in searches if span.get_text(SERVING))
    return {"used_bullet_ids": tuple(bullet_ids)[:MAX_BULLET_IDS], "serving_ids": tuple(servings)[:MAX_SERVINGS]}


def _find_evaluation(spans: Sequence[Span]) -> dict[str, object]:
    """Return the reward and the test report of the last evaluation of a trace, as far as it has them."""
    for span in reversed(spans):
        for prefix in _EVALUATIONS:
            label = span.get_text(f"{prefix}.score.label") or span.get_text(f"{prefix}.label")
            score = span.attributes.get(f"{prefix}.score.value", span.attributes.get(f"{prefix}.score"))
            if not label and score is None:
                continue
            reward = float(score) if isinstance(score, int | float) and 0 <= score <= 1 else None
            if not label and reward is None:
                return {}
            explanation = " ".join(span.get_text(f"{prefix}.explanation").split())[:1_000]
            evaluation = (
                f"the evaluation {span.get_text(f'{prefix}.name')} is {label if reward is None else f'{reward:g}'}"
            )
            verdict = label or ("Passed" if reward is not None and reward > REWARD_OF_SUCCESS else "Failed")
            source = f"Source: {evaluation} ({explanation})." if explanation else f"Source: {evaluation}."
            return {"reward": reward, "test_report": f"{verdict}.\n{source}"}
    return {}


def _get_start_time(span: Span) -> datetime:
    try:
        return datetime.fromtimestamp(span.start / 1e9, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise MalformedTrajectory(f"{span.location}.startTimeUnixNano", span.start, "must be a time") from error


class _TraceSteps:
    """The steps of one trace, from its spans in the order of their start."""

    def __init__(self, location: str, spans: Sequence[Span]) -> None:
        self.collector = StepCollector(location)
        self._spans = {span.id: span for span in spans}
        self._agents: dict[str, str] = {}
        self._message_counts: Counter[str] = Counter()
        calls = [span for span in spans if span.get_text(_OPERATION) in _MODEL and has_messages(span)]
        # An agent's span repeats the messages of its model calls.
        speakers = calls or [span for span in spans if span.get_text(_OPERATION) == _AGENT and has_messages(span)]
        conversations = {span.id: (_read_inputs(span), _read_outputs(span)) for span in speakers}
        messages = [message for inputs, outputs in conversations.values() for message in (*inputs, *outputs)]
        parts = [part for message in messages for part in message.list_records("parts")]
        self._requested = {part.get_text("id") for part in parts if part.get_text("type") == "tool_call"}
        self._answered = {part.get_text("id") for part in parts if part.get_text("type") == "tool_call_response"}
        self._call_ids = _match_calls([span for span in spans if span.get_text(_OPERATION) == _TOOL], parts)
        self._failed = {
            self._call_ids[span.id] for span in spans if span.id in self._call_ids and span.error is not None
        }
        # An agent answers after the calls of its tools, of which its own messages may say nothing.
        open_agents: list[Span] = []
        for span in spans:
            for agent in [agent for agent in reversed(open_agents) if 0 < agent.end <= span.start]:
                open_agents.remove(agent)
                self._add_new(agent, conversations[agent.id][1])
            if span.id in conversations:
                inputs, outputs = conversations[span.id]
                if calls:
                    self._add_new(span, [*inputs, *outputs])
                else:
                    self._add_new(span, inputs)
                    open_agents.append(span)
            elif span.get_text(_OPERATION) == _TOOL:
                self._add_tool(span)
        for agent in reversed(open_agents):
            self._add_new(agent, conversations[agent.id][1])

    def _add_new(self, span: Span, messages: Sequence[Record]) -> None:
        agent = self._find_agent(span)
        span_counts: Counter[str] = Counter()
        for message in messages:
            key = _compute_message_key(message)
            span_counts[key] += 1
            if span_counts[key] > self._message_counts[key]:
                self._message_counts[key] += 1
                self._add(message, agent)

    def _add(self, message: Record, agent: str) -> None:
        role = message.get_choice("role", _ROLES)
        parts = message.list_records("parts")
        for part in parts:
            if part.get_text("type") == "tool_call_response":
                # The attribute is named `response`; early instrumentations wrote `result`.
                result = to_json_text(part.value.get("response", part.value.get("result")))
                call_id = part.get_text("id")
                result = mark_as_error(result) if call_id in self._failed else result
                self.collector.add(
                    part.location, "tool", result, name=self.collector.find_tool_name(call_id), call_id=call_id
                )
        calls = [read_call(part, part.get_text("id")) for part in parts if part.get_text("type") == "tool_call"]
        text, thought = _join_texts(parts, "text"), _join_texts(parts, "reasoning")
        if text or calls or thought:
            name = agent if role == "assistant" else ""
            self.collector.add(message.location, role, text, thought=thought, name=name, calls=calls)

    def _add_tool(self, span: Span) -> None:
        """Add the call and the result of a tool's span, unless a message has them."""
        call_id, tool = self._call_ids.get(span.id, ""), span.get_text("gen_ai.tool.name")
        if call_id in self._answered and call_id:
            return
        if not call_id or call_id not in self._requested:
            arguments = to_json_text(span.attributes.get("gen_ai.tool.call.arguments"))
            call = build_model(ToolCall, span.location, id=call_id, name=tool or "tool", arguments=arguments)
            self.collector.add(span.location, "assistant", "", name=self._find_agent(span), calls=[call])
        result = to_json_text(span.attributes.get("gen_ai.tool.call.result"))
        if span.error is not None:
            result = mark_as_error(result or span.error)
        self.collector.add(span.location, "tool", result, name=tool, call_id=call_id)

    def _find_agent(self, span: Span) -> str:
        """Return the agent named by a span or by its nearest named ancestor; each span is visited once."""
        visited: list[str] = []
        ancestor: Span | None = span
        while ancestor is not None and ancestor.id not in self._agents:
            # Marked before the ancestors are visited, so that a cycle of parents ends here.
            self._agents[ancestor.id] = name = ancestor.get_text("gen_ai.agent.name")
            visited.append(ancestor.id)
            if name:
                break
            ancestor = self._spans.get(ancestor.parent)
        agent = self._agents[ancestor.id] if ancestor is not None else ""
        self._agents.update(dict.fromkeys(visited, agent))
        return agent


def _match_calls(tool_spans: Sequence[Span], parts: Sequence[Record]) -> dict[str, str]:
    """Return the ids of calls by the ids of their spans; a span without one is of the next call with its arguments."""
    named = {span.id: call_id for span in tool_spans if (call_id := span.get_text("gen_ai.tool.call.id"))}
    answered = set(named.values())
    open_calls: dict[tuple[str, str], list[str]] = {}
    requests = {part.get_text("id"): part for part in parts if part.get_text("type") == "tool_call" and part.has("id")}
    for call_id, part in requests.items():
        if call_id not in answered:
            key = part.get_text("name"), to_json_text(part.value.get("arguments"))
            open_calls.setdefault(key, []).append(call_id)
    for span in tool_spans:
        arguments = to_json_text(span.attributes.get("gen_ai.tool.call.arguments"))
        calls = open_calls.get((span.get_text("gen_ai.tool.name"), arguments))
        if span.id not in named and calls:
            named[span.id] = calls.pop(0)
    return named


def has_messages(span: Span) -> bool:
    """Return whether a span has the contents of a call."""
    return any(span.attributes.get(name) for name in _CONTENTS)


def _read_inputs(span: Span) -> list[Record]:
    """Return the messages that one model call sent, with the instructions first."""
    parts = _parse_list(span, _INSTRUCTIONS)
    messages = [Record({"role": "system", "parts": parts}, f"{span.location}.{_INSTRUCTIONS}")] if parts else []
    return [*messages, *_read_list(span, _INPUT)]


def _read_outputs(span: Span) -> list[Record]:
    return _read_list(span, _OUTPUT)


def _read_list(span: Span, name: str) -> list[Record]:
    return [Record(value, f"{span.location}.{name}[{index}]") for index, value in enumerate(_parse_list(span, name))]


def _parse_list(span: Span, name: str) -> list[Value]:
    """Return an attribute that is a list or the JSON text of a list: some exporters have no structured attributes."""
    value = span.attributes.get(name)
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise MalformedTrajectory(f"{span.location}.{name}", value, f"is not JSON: {error}") from error
    if value is None or value == "":
        return []
    if not isinstance(value, list):
        raise MalformedTrajectory(f"{span.location}.{name}", value, "must be a list")
    return value


def _join_texts(parts: Sequence[Record], kind: str) -> str:
    return "\n\n".join(text for part in parts if part.get_text("type") == kind and (text := part.get_text("content")))


def _compute_message_key(message: Record) -> str:
    """Return a key that is equal for repeated messages: repetitions omit reasoning, and calls have ids."""
    parts = []
    for part in message.list_records("parts"):
        kind, call_id = part.get_text("type"), part.get_text("id")
        if kind != "reasoning":
            parts.append([kind, call_id] if call_id else part.value)
    return json.dumps([message.get_text("role"), parts], sort_keys=True)
