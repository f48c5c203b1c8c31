"""JSON pointers (RFC 6901): building, splitting, and finding the values that they point at."""

from __future__ import annotations

from collections.abc import Iterator

MISSING = object()
"""The value of a pointer that points at nothing; null is a value."""


def escape_step(step: str) -> str:
    """Escape `~` and `/` in one step of a pointer."""
    return step.replace("~", "~0").replace("/", "~1")


def build_pointer(*steps: str | int) -> str:
    """Return the pointer of the steps."""
    return "".join(f"/{escape_step(str(step))}" for step in steps)


def split_pointer(pointer: str) -> tuple[str, ...]:
    """Return the steps of a pointer. Raises ValueError if it is neither empty nor starts with `/`."""
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise ValueError(f"JSON pointer {pointer!r} must be empty or start with '/'")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/"))


def format_path(pointer: str) -> str:
    """Return a pointer in the notation of messages: `/options/0/risks` is `options[0].risks`, `` is `report`."""
    path = ""
    for step in split_pointer(pointer):
        if step.isascii() and step.isdigit():
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path or "report"


def find_value(document: object, pointer: str) -> object:
    """Return the value that the pointer points at, `MISSING` where there is nothing."""
    value = document
    for step in split_pointer(pointer):
        value = _get_child(value, step)
        if value is MISSING:
            return MISSING
    return value


def find_matches(document: object, pattern: str) -> Iterator[tuple[str, object]]:
    """Yield the pointers that match a pointer with `*` steps, with their values.

    A `*` matches every element of an array or object. A place that is missing is yielded with `MISSING` as long as its
    parent exists, so that rules can report it; under a `*` that matches nothing there is no place.
    """
    found: list[tuple[str, object]] = [("", document)]
    for step in split_pointer(pattern):
        found = [(f"{pointer}/{key}", value) for pointer, parent in found for key, value in _follow_token(parent, step)]
    yield from found


def _follow_token(parent: object, step: str) -> Iterator[tuple[str, object]]:
    if step != "*":
        if parent is not MISSING:
            yield escape_step(step), _get_child(parent, step)
    elif isinstance(parent, list):
        for index, value in enumerate(parent):
            yield str(index), value
    elif isinstance(parent, dict):
        for key, value in parent.items():
            yield escape_step(str(key)), value


def _get_child(parent: object, step: str) -> object:
    if isinstance(parent, dict):
        return parent.get(step, MISSING)
    if isinstance(parent, list) and step.isascii() and step.isdigit() and len(step) < 10:
        index = int(step)
        return parent[index] if index < len(parent) else MISSING
    return MISSING


Trail = tuple["Trail", str | int] | None
"""The steps to a value, innermost first: cheap to extend, converted to a pointer only where one is needed."""


def format_trail(trail: Trail) -> str:
    """Return the pointer of a trail."""
    steps: list[str] = []
    while trail is not None:
        trail, step = trail
        steps.append("/" + escape_step(str(step)))
    return "".join(reversed(steps))


def iterate_strings(value: object, trail: Trail = None) -> Iterator[tuple[Trail, str]]:
    """Yield every string inside `value` with its trail, in document order, at any depth."""
    pending: list[tuple[Trail, object]] = [(trail, value)]
    while pending:
        trail, current = pending.pop()
        if isinstance(current, str):
            yield trail, current
        elif isinstance(current, dict):
            pending.extend([((trail, key), child) for key, child in reversed(current.items())])
        elif isinstance(current, list):
            pending.extend([((trail, index), current[index]) for index in range(len(current) - 1, -1, -1)])
