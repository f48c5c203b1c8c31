"""A service of the chassis: gRPC services, a start, a close, and tasks that run in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chassis.guard import AllowAll, Guard


async def do_nothing() -> None:
    """Do nothing: start, drain or close a service without state."""


@dataclass(frozen=True, slots=True)
class Registration:
    """One gRPC service: the generated ``add_XServicer_to_server`` and its servicer.

    Endless streams (a watch) end with UNAVAILABLE when the server drains, and their callers resume them. A method is
    endless if its policy has no timeout; ``endless`` names more.
    """

    add: Callable[[Any, Any], None]
    servicer: object
    endless: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Service:
    """A named set of gRPC services with one lifecycle.

    ``start`` prepares the service (opens the database, loads the index): until it returns, health reports NOT_SERVING
    and calls are refused with UNAVAILABLE. Then ``tasks`` run; if one raises, the error is logged and health reports
    NOT_SERVING. ``drain`` runs when the server begins to stop and still accepts calls: it ends background work, such as
    processing a queue. ``close`` runs after the last call has ended, also when ``start`` failed. ``guard`` authorizes
    calls. ``http_url`` returns where the started service also serves HTTP, or an empty text.
    """

    name: str
    registrations: Sequence[Registration]
    start: Callable[[], Awaitable[None]] = do_nothing
    drain: Callable[[], Awaitable[None]] = do_nothing
    close: Callable[[], Awaitable[None]] = do_nothing
    tasks: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    guard: Guard = field(default_factory=AllowAll)
    http_url: Callable[[], str] = str
