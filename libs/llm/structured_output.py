"""Structured replies: the schema for the backend, its description in a prompt, and the validation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from chassis.field_errors import describe_rule
from libs.llm.errors import ReplyNotStructured
from libs.llm.json_completion import complete_json
from libs.llm.replies import extract_json_object

S = TypeVar("S", bound=BaseModel)

Form = Literal["json_schema", "json_object"]
FORMS: tuple[Form, ...] = ("json_schema", "json_object")
"""The ways in which a backend can enforce a structured reply, strictest first."""

MAX_COMPLAINTS = 10

_UNSENT = frozenset({
    "default", "title", "examples", "format", "pattern", "discriminator",
    "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
})  # fmt: skip
"""Keywords that are outside OpenAI's strict subset, or too much for the grammar of a local server. They are checked in
the reply."""


def parse_structured(text: str, shape: type[S]) -> S:
    """Return the JSON object in `text` (G-11) as a `shape`. Raise ReplyNotStructured with up to ten field errors."""
    found = extract_json_object(text)
    try:
        return shape.model_validate(found)
    except ValidationError as error:
        complaints = "; ".join(_describe_violations(error))
        raise ReplyNotStructured(f"the JSON object does not fit {shape.__name__}: {complaints}") from error


def parse_complete_parts(text: str, shape: type[S], parse: Callable[[str, type[S]], S]) -> S | None:
    """Return the complete parts of a truncated reply as a `shape`; None if no part is complete."""
    for candidate in complete_json(text):
        with suppress(ReplyNotStructured):
            return parse(candidate, shape)
    return None


def _describe_violations(error: ValidationError) -> Iterator[str]:
    for item in error.errors(include_url=False, include_input=False)[:MAX_COMPLAINTS]:
        path = ".".join(str(part) for part in item["loc"]) or "the object"
        yield f"{path}: {describe_rule(item)}"


def build_instruction(shape: type[BaseModel]) -> str:
    """Return the prompt text that requests a `shape`."""
    schema = json.dumps(shape.model_json_schema(), ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must match this JSON schema:\n{schema}"


def build_correction(error: ReplyNotStructured) -> str:
    """Return the prompt text that requests a correction of an invalid reply."""
    return f"That reply cannot be used: {error}. Answer again, with the whole corrected JSON object and nothing else."


def build_response_format(shape: type[BaseModel], form: Form = "json_schema") -> dict[str, Any]:
    """Return the fields of a chat completions request that enforce a `shape`.

    They are sent as `extra_body`: with the option `response_format`, LangChain would parse the reply and raise for a
    truncated one that can still be read and counted. Strict mode needs objects with declared fields only, and makes
    all of them required.
    """
    schema = _simplify(shape.model_json_schema())
    strict = all(_is_closed(node) for node in _iterate_object_schemas(schema))
    if strict:
        for node in _iterate_object_schemas(schema):
            node["additionalProperties"] = False
            node["required"] = list(node["properties"])
    if form == "json_object":
        return {"response_format": {"type": "json_object", "schema": schema}}
    schema_format = {"name": shape.__name__, "schema": schema, "strict": strict}
    return {"response_format": {"type": "json_schema", "json_schema": schema_format}}


def _simplify(node: Any, *, is_named: bool = False) -> Any:
    """Return a JSON schema within the strict subset. `is_named`: the keys of the node are names of fields."""
    if isinstance(node, list):
        return [_simplify(item) for item in node]
    if not isinstance(node, dict):
        return node
    if is_named:
        return {name: _simplify(value) for name, value in node.items()}
    if "$ref" in node:
        return {"$ref": node["$ref"]}
    simple: dict[str, Any] = {}
    for key, value in node.items():
        if key == "const":
            simple["enum"] = [value]
        elif key in ("enum", "required"):
            simple[key] = value
        elif key not in _UNSENT:
            name = "anyOf" if key == "oneOf" else key
            simple[name] = _simplify(value, is_named=key in ("properties", "$defs"))
    return simple


def _iterate_object_schemas(node: object) -> Iterator[dict[str, Any]]:
    """Yield every schema of type `object` in a JSON schema."""
    children: list[Any] = []
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        children = list(node.values())
    elif isinstance(node, list):
        children = node
    for child in children:
        yield from _iterate_object_schemas(child)


def _is_closed(node: dict[str, Any]) -> bool:
    return "properties" in node and node.get("additionalProperties", False) is False
