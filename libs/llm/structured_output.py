"""Structured replies: the schema for the backend, its description in a prompt, and the validation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from chassis.field_errors import describe_rule
from libs.llm.errors import ReplyNotStructured
from libs.llm.replies import extract_json_object

S = TypeVar("S", bound=BaseModel)

MAX_COMPLAINTS = 10


def parse_structured(text: str, shape: type[S]) -> S:
    """Return the JSON object in `text` (G-11) as a `shape`. Raise ReplyNotStructured with up to ten field errors."""
    found = extract_json_object(text)
    try:
        return shape.model_validate(found)
    except ValidationError as error:
        complaints = "; ".join(_find_complaints(error))
        raise ReplyNotStructured(f"the JSON object does not fit {shape.__name__}: {complaints}") from error


def _find_complaints(error: ValidationError) -> Iterator[str]:
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


def build_response_format(shape: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a chat completions request that enforce a `shape`.

    They are sent as `extra_body`: with the option `response_format`, LangChain would parse the reply and raise for a
    truncated one that can still be read and counted. Strict mode needs objects with declared fields only, and makes
    all of them required.
    """
    schema = shape.model_json_schema()
    strict = all(_is_closed(node) for node in _iterate_object_schemas(schema))
    if strict:
        for node in _iterate_object_schemas(schema):
            node["additionalProperties"] = False
            node["required"] = list(node["properties"])
            for field in node["properties"].values():
                field.pop("default", None)
    schema_format = {"name": shape.__name__, "schema": schema, "strict": strict}
    return {"response_format": {"type": "json_schema", "json_schema": schema_format}}


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
