"""JSON pointers (RFC 6901): writing them, reading them, and finding what they point at."""

from __future__ import annotations

from collections.abc import Iterator

MISSING = object()
"""What a pointer finds where there is nothing; null is something."""


def escaped(step: str) -> str:
    """One step of a pointer, `~` and `/` escaped."""
    return step.replace("~", "~0").replace("/", "~1")


def pointer_to(*steps: str | int) -> str:
    """The pointer of the steps."""
    return "".join(f"/{escaped(str(step))}" for step in steps)


def steps_of(pointer: str) -> tuple[str, ...]:
    """The steps of a pointer. Raises ValueError when it is neither empty nor starts with `/`."""
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise ValueError(f"JSON pointer {pointer!r} must be empty or start with '/'")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/"))


def path_of(pointer: str) -> str:
    """The pointer in the notation of messages: `/options/0/risks` is `options[0].risks`, the empty one `report`."""
    path = ""
    for step in steps_of(pointer):
        if step.isascii() and step.isdigit():
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path or "report"


def value_at(document: object, pointer: str) -> object:
    """What the pointer points at, `MISSING` where there is nothing."""
    value = document
    for step in steps_of(pointer):
        value = _child(value, step)
        if value is MISSING:
            return MISSING
    return value


def matches(document: object, pattern: str) -> Iterator[tuple[str, object]]:
    """The places that a pointer with `*` steps stands for, with their values.

    A `*` matches every element of an array or object. A place that is missing is yielded with `MISSING` as long as its
    parent exists, so that rules can report it; under a `*` that matches nothing there is no place.
    """
    found: list[tuple[str, object]] = [("", document)]
    for step in steps_of(pattern):
        found = [(f"{pointer}/{key}", value) for pointer, parent in found for key, value in _step(parent, step)]
    yield from found


def _step(parent: object, step: str) -> Iterator[tuple[str, object]]:
    if step != "*":
        if parent is not MISSING:
            yield escaped(step), _child(parent, step)
    elif isinstance(parent, list):
        for index, value in enumerate(parent):
            yield str(index), value
    elif isinstance(parent, dict):
        for key, value in parent.items():
            yield escaped(str(key)), value


def _child(parent: object, step: str) -> object:
    if isinstance(parent, dict):
        return parent.get(step, MISSING)
    if isinstance(parent, list) and step.isascii() and step.isdigit() and len(step) < 10:
        index = int(step)
        return parent[index] if index < len(parent) else MISSING
    return MISSING


Trail = tuple["Trail", str | int] | None
"""The way to a value, innermost step last: cheap to extend, turned into a pointer only where one is needed."""


def pointer_along(trail: Trail) -> str:
    """The pointer of a trail."""
    steps: list[str] = []
    while trail is not None:
        trail, step = trail
        steps.append("/" + escaped(str(step)))
    return "".join(reversed(steps))


def strings_in(value: object, trail: Trail = None) -> Iterator[tuple[Trail, str]]:
    """Every string value inside `value` with the trail to it, in document order, however deep."""
    pending: list[tuple[Trail, object]] = [(trail, value)]
    while pending:
        trail, current = pending.pop()
        if isinstance(current, str):
            yield trail, current
        elif isinstance(current, dict):
            pending.extend([((trail, key), child) for key, child in reversed(current.items())])
        elif isinstance(current, list):
            pending.extend([((trail, index), current[index]) for index in range(len(current) - 1, -1, -1)])
