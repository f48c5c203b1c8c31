"""What a service is to the chassis: gRPC services, a start, a close, and tasks that run in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chassis.guard import Guard, Open


async def _nothing() -> None:
    """The start and the close of a service that has no state."""


@dataclass(frozen=True, slots=True)
class Registration:
    """One gRPC service: the generated ``add_XServicer_to_server`` and the servicer it takes.

    Streams that never end by themselves (a watch) end with UNAVAILABLE when the server drains, and their callers resume
    them. These are the methods whose policy sets no timeout; ``endless`` names more.
    """

    add: Callable[[Any, Any], None]
    servicer: object
    endless: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Service:
    """A named set of gRPC services with one life.

    ``start`` makes it able to answer (open the database, load the index): until it returns, health says NOT_SERVING
    and calls are refused with UNAVAILABLE. ``tasks`` run from then on; one that raises is logged, and health says
    NOT_SERVING from that moment. ``drain`` runs when the server begins to leave, while it still takes calls: it ends
    what the service does of its own accord, such as working off a queue. ``close`` runs after the last call has ended,
    also when ``start`` failed. ``guard`` decides who may call.
    """

    name: str
    registrations: Sequence[Registration]
    start: Callable[[], Awaitable[None]] = _nothing
    drain: Callable[[], Awaitable[None]] = _nothing
    close: Callable[[], Awaitable[None]] = _nothing
    tasks: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    guard: Guard = field(default_factory=Open)
