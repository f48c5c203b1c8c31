"""The standard gRPC health service.

The status of ``""`` and of each service is readiness; that of ``liveness`` becomes NOT_SERVING when the process needs a
restart. Readiness never includes peers: a missing peer must not make its callers unready.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

OVERALL = ""
LIVENESS = "liveness"

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """The health of the process. Unlike in the stock servicer, watches end with the server."""

    def __init__(self, services: Iterable[str]) -> None:
        self._services = frozenset(services)
        self._ready: set[str] = {LIVENESS}
        self._changed = asyncio.Event()
        self._ended = False

    def get_status(self, name: str) -> int:
        """Return the status of a service, of `LIVENESS`, or of `OVERALL`: SERVING when every service is."""
        if name == OVERALL:
            is_ready = self._services <= self._ready
        elif name in self._services or name == LIVENESS:
            is_ready = name in self._ready
        else:
            return int(SERVICE_UNKNOWN)
        return int(SERVING if is_ready else NOT_SERVING)

    def set_ready(self, names: Iterable[str]) -> None:
        """Set services to SERVING: they are ready for calls."""
        self._ready.update(names)
        self._notify()

    def set_not_ready(self, names: Iterable[str]) -> None:
        """Set services to NOT_SERVING."""
        self._ready.difference_update(names)
        self._notify()

    def set_draining(self) -> None:
        """Set all services to NOT_SERVING; liveness stays."""
        self.set_not_ready(self._services)

    def end_watches(self) -> None:
        """End the open Watch calls, which would delay the stop of the server."""
        self._ended = True
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the status; NOT_FOUND for a name that is not registered."""
        status = self.get_status(request.service)
        if status == SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """Yield the status now and after each change, until the server stops."""
        sent_status: int | None = None
        while True:
            changed = self._changed
            status = self.get_status(request.service)
            if status != sent_status:
                sent_status = status
                yield health_pb2.HealthCheckResponse(status=status)
            if self._ended:
                return
            await changed.wait()
