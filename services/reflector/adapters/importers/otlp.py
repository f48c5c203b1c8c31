"""Reads spans and log records from OTLP JSON of collectors and exporters.

Source of the format: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from services.reflector.adapters.importers.json_records import Record
from services.reflector.domain.errors import MalformedTrajectory

_ERROR = frozenset({2, "STATUS_CODE_ERROR"})
_MAX_LEVELS = 32
_MAX_DIGITS = 20
Value = object


@dataclass(frozen=True, slots=True)
class Span:
    """One span: its ids in hexadecimal, its start (nanoseconds since 1970), its attributes and its error."""

    location: str
    trace: str
    id: str
    parent: str
    start: int
    attributes: Mapping[str, Value]
    error: str | None
    """The error message, None without an error."""
    name: str = ""
    end: int = 0
    """Nanoseconds since 1970, 0 if it is not known."""

    def get_text(self, name: str) -> str:
        """Return an attribute as text, empty if it is missing or no text."""
        value = self.attributes.get(name)
        return value if isinstance(value, str) else ""


def read_spans(record: Record) -> Iterator[Span]:
    """Yield the spans of one export, in order. Raise MalformedTrajectory with span and field."""
    for resource in record.list_records("resourceSpans"):
        for scope in resource.list_records("scopeSpans"):
            for span in scope.list_records("spans"):
                yield _read_span(span)


def _read_span(span: Record) -> Span:
    attributes = _read_attributes(span)
    for event in span.list_records("events"):
        # An event of the span may hold the contents.
        attributes = {**_read_attributes(event), **attributes}
    status = span.get_child("status")
    error = None
    if status is not None and status.value.get("code") in _ERROR:
        kind = attributes.get("error.type")
        error = status.get_text("message") or (kind if isinstance(kind, str) else "") or "failed"
    return Span(
        location=span.location,
        trace=span.require_text("traceId"),
        id=span.require_text("spanId"),
        parent=span.get_text("parentSpanId"),
        start=_read_nanoseconds(span, "startTimeUnixNano"),
        attributes=attributes,
        error=error,
        name=span.get_text("name"),
        end=_read_nanoseconds(span, "endTimeUnixNano"),
    )


def read_log_record(log: Record) -> Span | None:
    """Return a log record as a child of its span, None without one. Raise MalformedTrajectory with its field."""
    attributes = _read_attributes(log)
    attributes["event.name"] = log.get_text("eventName") or attributes.get("event.name")
    span, trace = log.get_text("spanId"), log.get_text("traceId")
    if not trace:
        return None
    kind = attributes.get("error.type")
    return Span(
        location=log.location,
        trace=trace,
        id=f"{span}/{log.location}",
        parent=span,
        start=_read_nanoseconds(log, "timeUnixNano"),
        attributes=attributes,
        error=kind if isinstance(kind, str) else None,
    )


def _read_nanoseconds(span: Record, name: str) -> int:
    text = span.get_text(name, "0")
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        raise MalformedTrajectory(span.build_path(name), text, "must be nanoseconds since 1970")
    return int(text)


def _read_attributes(owner: Record) -> dict[str, Value]:
    return {pair.get_text("key"): _read_value(pair.get_child("value"), 0) for pair in owner.list_records("attributes")}


def _read_value(value: Record | None, level: int) -> Value:
    """Return the value of an AnyValue, None for an unsupported kind."""
    if value is None:
        return None
    if level == _MAX_LEVELS:
        raise MalformedTrajectory(value.location, "", "is nested too deeply")
    if value.has("stringValue"):
        return value.get_text("stringValue")
    if (array := value.get_child("arrayValue")) is not None:
        return [_read_value(item, level + 1) for item in array.list_records("values")]
    if (pairs := value.get_child("kvlistValue")) is not None:
        return {
            pair.get_text("key"): _read_value(pair.get_child("value"), level + 1)
            for pair in pairs.list_records("values")
        }
    if value.has("intValue"):  # JSON of protobuf writes 64-bit numbers as text.
        number = value.get_number("intValue") if not isinstance(value.value["intValue"], str) else _parse_number(value)
        return None if number is None else int(number)
    return next((value.value[name] for name in ("boolValue", "doubleValue") if value.has(name)), None)


def _parse_number(value: Record) -> int:
    text = value.get_text("intValue")
    if not text.removeprefix("-").isdigit() or not text.isascii() or len(text) > _MAX_DIGITS:
        raise value.build_error("intValue", "must be a 64-bit number")
    return int(text)
