"""Reads untrusted JSON; every error names the location, the value and the rule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from chassis.field_errors import describe_rule
from chassis.json_texts import format_as_text, repair_surrogates
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.trajectory import ToolCall

Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")


class Record:
    """A JSON object of untrusted origin; every error names its ``location`` and the field."""

    def __init__(self, value: object, location: str) -> None:
        if not isinstance(value, dict):
            raise MalformedTrajectory(location, value, "must be a JSON object")
        self.value: dict[str, object] = value
        self.location = location

    def has(self, name: str) -> bool:
        """Return whether the field exists and is not null."""
        return self.value.get(name) is not None

    def build_path(self, name: str) -> str:
        """Return the location of the field, for messages."""
        return f"{self.location}.{name}"

    def build_error(self, name: str, rule: str) -> MalformedTrajectory:
        """Return the error of a field that violates a rule."""
        return MalformedTrajectory(self.build_path(name), self.value.get(name), rule)

    def get_choice(self, name: str, values: Mapping[str, Value]) -> Value:
        """Return the value for the text of the field. Raise MalformedTrajectory for a text without one."""
        value = values.get(self.get_text(name))
        if value is None:
            raise self.build_error(name, f"must be one of {', '.join(values)}")
        return value

    def get_text(self, name: str, default: str = "") -> str:
        """Return the field as text, `default` if it is missing or null. Raise MalformedTrajectory for another type."""
        value = self.value.get(name)
        if value is None:
            return default
        if isinstance(value, str):
            return repair_surrogates(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.build_error(name, "must be text")
        return str(value)

    def get_number(self, name: str) -> float | None:
        """Return the field as a finite number, None if it is missing or null."""
        value = self.value.get(name)
        if value is None:
            return None
        if not isinstance(value, bool) and isinstance(value, int | float):
            with suppress(OverflowError):  # an integer may be larger than any float
                if math.isfinite(number := float(value)):
                    return number
        raise self.build_error(name, "must be a finite number")

    def list_records(self, name: str) -> list[Record]:
        """Return the field as a list of objects, empty if it is missing or null."""
        value = self.value.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.build_error(name, "must be a list")
        return [Record(item, f"{self.build_path(name)}[{index}]") for index, item in enumerate(value)]

    def require_list(self, name: str) -> None:
        """Raise MalformedTrajectory if the field is missing or no list."""
        if not isinstance(self.value.get(name), list):
            raise self.build_error(name, "must be a list")

    def require_records(self, name: str) -> list[Record]:
        """Return the field as a list of objects. Raise MalformedTrajectory if it is missing or empty."""
        if not self.value.get(name):
            raise self.build_error(name, "must be a list that is not empty")
        return self.list_records(name)

    def get_child(self, name: str) -> Record | None:
        """Return the field as an object, None if it is missing or null."""
        return Record(self.value[name], self.build_path(name)) if self.has(name) else None

    def get_child_or_empty(self, name: str) -> Record:
        """Return the field as an object, one without fields if it is missing or null."""
        return Record(self.value[name] if self.has(name) else {}, self.build_path(name))

    def require_text(self, name: str, rule: str = "must not be empty") -> str:
        """Return the field as text that is not empty. Raise MalformedTrajectory with `rule`."""
        text = self.get_text(name)
        if not text:
            raise self.build_error(name, rule)
        return text

    def require_name(self, name: str) -> str:
        """Return the field as the name of a tool. Raise MalformedTrajectory if it is missing."""
        return self.require_text(name, "must name the tool")

    def list_texts(self, name: str) -> tuple[str, ...]:
        """Return the field as a list of texts, empty if it is missing or null."""
        value = self.value.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.build_error(name, "must be a list of texts")
        return tuple(repair_surrogates(item) for item in value)


def join_content(record: Record, name: str = "content") -> str:
    """Return the content of a message: a text, or the joined texts of its parts; empty for null."""
    value = record.value.get(name)
    if not isinstance(value, list):
        return record.get_text(name)
    return "".join(
        repair_surrogates(part)
        if isinstance(part, str)
        else Record(part, f"{record.build_path(name)}[{index}]").get_text("text")
        for index, part in enumerate(value)
    )


def to_json_text(value: object) -> str:
    """Return arguments as text: text unchanged, any other value as JSON."""
    if value is None:
        return ""
    return repair_surrogates(format_as_text(value))


def read_call(record: Record, call_id: str = "", *, name: str = "name", arguments: str = "arguments") -> ToolCall:
    """Return the tool call in a record, whose fields are named so. Raise MalformedTrajectory if it names no tool."""
    return build_model(
        ToolCall,
        record.location,
        id=call_id,
        name=record.require_name(name),
        arguments=to_json_text(record.value.get(arguments)),
    )


def build_model(model: type[Model], location: str, **fields: object) -> Model:
    """Return a `model` of `fields`. Raise MalformedTrajectory with the location and field of the first violation."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field_path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise MalformedTrajectory(f"{location}{field_path}", first.get("input"), describe_rule(first)) from error
