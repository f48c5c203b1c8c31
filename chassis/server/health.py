"""The standard gRPC health service. ``""`` and each service say whether calls are answered; ``liveness`` whether the
process is worth keeping. Readiness never includes peers: a missing peer must not take its callers down with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

OVERALL = ""
LIVENESS = "liveness"

Status = health_pb2.HealthCheckResponse.ServingStatus
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """What the process says of itself. Unlike the stock servicer its watches end when the server does."""

    def __init__(self, services: Iterable[str]) -> None:
        self._services = frozenset(services)
        self._serving: set[str] = {LIVENESS}
        self._changed = asyncio.Event()
        self._ended = False

    def status(self, name: str) -> int:
        """The status of a service, of `LIVENESS`, or of `OVERALL`: SERVING when every service is."""
        if name == OVERALL:
            serving = self._services <= self._serving
        elif name in self._services or name == LIVENESS:
            serving = name in self._serving
        else:
            return int(SERVICE_UNKNOWN)
        return int(SERVING if serving else NOT_SERVING)

    def set_serving(self, names: Iterable[str]) -> None:
        """These answer from now on."""
        self._serving.update(names)
        self._notify()

    def set_not_serving(self, names: Iterable[str]) -> None:
        """These do not answer from now on."""
        self._serving.difference_update(names)
        self._notify()

    def set_draining(self) -> None:
        """Nothing takes new calls any more; the process itself is still well."""
        self.set_not_serving(self._services)

    def end_watches(self) -> None:
        """End the open Watch calls, which would otherwise hold up the server's stop."""
        self._ended = True
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Tell the status once; NOT_FOUND for a name nobody registered."""
        status = self.status(request.service)
        if status == SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """Tell the status now and whenever it changes, until the server stops."""
        told: int | None = None
        while True:
            changed = self._changed
            status = self.status(request.service)
            if status != told:
                told = status
                yield health_pb2.HealthCheckResponse(status=status)
            if self._ended:
                return
            await changed.wait()
