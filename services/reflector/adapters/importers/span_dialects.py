"""Translates spans of OpenInference, OpenLLMetry and Langfuse into those of the OpenTelemetry GenAI conventions.

Sources of the formats: https://github.com/Arize-ai/openinference, spec/semantic_conventions.md, and
https://github.com/traceloop/openllmetry, packages/opentelemetry-semantic-conventions-ai. Both write lists as attributes
with numbers in their names, such as `llm.input_messages.0.message.role`. Langfuse writes observations as attributes:
https://github.com/langfuse/langfuse-python, langfuse/_client/attributes.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.langfuse_observations import read_attributes
from services.reflector.adapters.importers.message_parts import parse_json
from services.reflector.adapters.importers.otlp import Span, Value

_MAX_NAMES = 12
"""Most names in the path of an attribute."""
_OPENINFERENCE_KIND = "openinference.span.kind"
_TRACELOOP_KIND = "traceloop.span.kind"
_LANGFUSE = "langfuse.observation."
_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_OPERATION = "gen_ai.operation.name"

Tree = dict[str, "Tree | Value"]


def translate(span: Span) -> Span:
    """Return the span with the attributes of the GenAI conventions added, unless it has them."""
    if _OPENINFERENCE_KIND in span.attributes:
        added = _translate_openinference(span)
    elif span.get_text(_TRACELOOP_KIND) == "tool":
        return _translate_openllmetry_tool(span)
    elif "gen_ai.prompt.0.role" in span.attributes:
        added = _translate_openllmetry(span)
    elif f"{_LANGFUSE}type" in span.attributes:
        added = _translate_langfuse(span)
    else:
        return span
    return replace(span, attributes={**added, **span.attributes})


def _translate_openinference(span: Span) -> dict[str, Value]:
    kind = span.get_text(_OPENINFERENCE_KIND).upper()
    if kind == "LLM":
        return {
            _OPERATION: "chat",
            _INPUT: [
                _read_openinference_message(entry) for entry in _list_trees(span.attributes, "llm.input_messages")
            ],
            _OUTPUT: [
                _read_openinference_message(entry) for entry in _list_trees(span.attributes, "llm.output_messages")
            ],
        }
    if kind == "TOOL":
        return {
            _OPERATION: "execute_tool",
            "gen_ai.tool.name": span.get_text("tool.name"),
            "gen_ai.tool.call.id": span.get_text("tool_call.id"),
            "gen_ai.tool.call.arguments": span.attributes.get("input.value"),
            "gen_ai.tool.call.result": span.attributes.get("output.value"),
        }
    if kind == "AGENT":
        return {
            _OPERATION: "invoke_agent",
            "gen_ai.agent.name": span.get_text("agent.name"),
            **_build_texts(span.get_text("input.value"), span.get_text("output.value")),
        }
    return {}


def _read_openinference_message(entry: Tree) -> Value:
    message = _get_tree(entry, "message")
    contents = [_get_tree(part, "message_content") for part in _list_trees(message, "contents")]
    # Some instrumentations write the text of a message both as its content and as its only part.
    content = message.get("content")
    texts = [content] if content or not contents else [content.get("text") for content in contents]
    calls = [_get_tree(part, "tool_call") for part in _list_trees(message, "tool_calls")]
    return _build_message(
        message,
        texts,
        [
            {"id": call.get("id"), **{name: _get_tree(call, "function").get(name) for name in ("name", "arguments")}}
            for call in calls
        ],
    )


def _translate_openllmetry_tool(span: Span) -> Span:
    """Return the span of a tool. LangChain's callbacks stand around its arguments and its result, a message."""
    arguments, result = (parse_json(span.attributes.get(f"traceloop.entity.{name}")) for name in ("input", "output"))
    has_failed, call_id = False, None
    if isinstance(arguments, dict) and "input_str" in arguments:
        arguments = arguments.get("inputs") or arguments["input_str"]
    if isinstance(result, dict) and isinstance(result.get("output"), dict):
        message = result["output"].get("kwargs")
        if isinstance(message, dict):
            result, call_id = message.get("content"), message.get("tool_call_id")
            has_failed = message.get("status") == "error"
    attributes = {
        **span.attributes,
        _OPERATION: "execute_tool",
        "gen_ai.tool.name": span.get_text("traceloop.entity.name"),
        "gen_ai.tool.call.arguments": arguments,
        "gen_ai.tool.call.result": result,
    }
    if isinstance(call_id, str):
        attributes["gen_ai.tool.call.id"] = call_id
    return replace(span, attributes=attributes, error=span.error or ("failed" if has_failed else None))


def _translate_openllmetry(span: Span) -> dict[str, Value]:
    prompts = _list_trees(span.attributes, "gen_ai.prompt")
    if not prompts:
        return {}
    return {
        _OPERATION: "chat",
        _INPUT: [_read_openllmetry_message(message, "user") for message in prompts],
        _OUTPUT: [
            _read_openllmetry_message(message, "assistant")
            for message in _list_trees(span.attributes, "gen_ai.completion")
        ],
    }


def _read_openllmetry_message(message: Tree, role: str) -> Value:
    return _build_message({"role": role, **message}, [message.get("content")], _list_trees(message, "tool_calls"))


def _translate_langfuse(span: Span) -> dict[str, Value]:
    observation = {
        "type": span.get_text(f"{_LANGFUSE}type"),
        "name": span.name,
        "parentObservationId": span.parent or None,
        "isRootObservation": span.attributes.get("langfuse.internal.is_app_root"),
        **{name: span.attributes.get(f"{_LANGFUSE}{name}") for name in ("input", "output")},
        "usageDetails": parse_json(span.attributes.get(f"{_LANGFUSE}usage_details")),
        "costDetails": parse_json(span.attributes.get(f"{_LANGFUSE}cost_details")),
    }
    return read_attributes(Record(observation, f"{span.location}.{_LANGFUSE.rstrip('.')}"))


def _build_message(message: Tree, texts: Sequence[Value], calls: Sequence[Tree]) -> Value:
    """Return a message of the GenAI conventions."""
    role = message.get("role")
    if role == "tool":
        response = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": texts[0]}
        return {"role": role, "parts": [response]}
    parts: list[Value] = [{"type": "text", "content": text} for text in texts if isinstance(text, str) and text]
    parts += [
        {"type": "tool_call", "id": call.get("id"), "name": call.get("name"), "arguments": call.get("arguments")}
        for call in calls
    ]
    return {"role": role, "parts": parts}


def _build_texts(question: str, answer: str) -> dict[str, Value]:
    """Return the messages of an agent whose span has only an input and an output."""
    return {
        name: [{"role": role, "parts": [{"type": "text", "content": text}]}]
        for name, role, text in ((_INPUT, "user", question), (_OUTPUT, "assistant", answer))
        if text
    }


def _list_trees(attributes: Mapping[str, Value], prefix: str) -> list[Tree]:
    """Return the elements of a list that is written as numbered attributes, in the order of their numbers."""
    below = attributes.get(prefix)
    if not isinstance(below, dict):
        below = _build_tree(attributes, f"{prefix}.")
    numbered = [(int(name), element) for name, element in below.items() if name.isascii() and name.isdigit()]
    return [element for _, element in sorted(numbered, key=lambda pair: pair[0]) if isinstance(element, dict)]


def _build_tree(attributes: Mapping[str, Value], prefix: str) -> Tree:
    tree: Tree = {}
    for path, value in attributes.items():
        if not path.startswith(prefix):
            continue
        *names, last = path.removeprefix(prefix).split(".", _MAX_NAMES)
        branch: Value = tree
        for name in names:
            branch = branch.setdefault(name, {}) if isinstance(branch, dict) else None
        if isinstance(branch, dict):
            branch[last] = value
    return tree


def _get_tree(tree: Tree, name: str) -> Tree:
    found = tree.get(name)
    return found if isinstance(found, dict) else {}
