"""The life of a process, from the environment to the last flushed span.

Start: bind the port → build the services → serve health (NOT_SERVING) and reflection → start the services in order;
each serves, reports SERVING and runs its tasks as soon as it has started.

Shutdown, on SIGTERM or SIGINT:

1. health reports NOT_SERVING; clients that watch it use other servers;
2. lame duck: calls are still accepted for `lame_duck_seconds`, until clients have noticed;
3. endless streams end with UNAVAILABLE, and clients resume them elsewhere; services end their background work;
4. with several services in the process: wait for the calls in progress while still accepting calls, because the
   services call each other;
5. the server stops accepting calls and waits for those in progress; steps 3 to 5 take at most
   `drain_grace_seconds`, then the remaining calls are cancelled;
6. handler tasks are awaited, so that their ``finally`` blocks run before their resources are closed;
7. background tasks are cancelled and services closed, the last started first;
8. channels to peers close; telemetry is flushed.

A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop

from chassis import logging, telemetry
from chassis.channels import Peers
from chassis.own_server import OwnServer
from chassis.server.health import LIVENESS, Health
from chassis.server.server import Server
from chassis.server.service import Service
from chassis.settings import BadSetting, ServiceSettings, exit_for, read_settings
from chassis.tls import Certificates, require_plaintext_allowed

log = logging.get_logger("hansei.lifecycle")

Services = Service | Sequence[Service]
S = TypeVar("S", bound=ServiceSettings)

_AFTER_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Running:
    """Services that are being served: their address and health."""

    address: str
    health: Health


@asynccontextmanager
async def serve(
    services: Services | Callable[[OwnServer], Services],
    address: str = "127.0.0.1:0",
    *,
    settings: ServiceSettings | None = None,
    certificates: Certificates | None = None,
) -> AsyncIterator[Running]:
    """Serve within this process until the block ends; then drain, as described above.

    `services` may be a function of the server, for services that call each other. Without `settings`
    the drain has no lame duck and five seconds of grace. Raises `BadSetting` if the address is unavailable, and the
    errors of a service's start, after closing the services that had started.
    """
    settings = settings or ServiceSettings(lame_duck_seconds=0, drain_grace_seconds=5)
    server = Server(settings, certificates)
    bound = server.bind(address)
    if settings.health_address:
        server.bind_for_probes(settings.health_address)
    built = services(server.describe_own(choose_reachable_address(bound))) if callable(services) else services
    listed = [built] if isinstance(built, Service) else list(built)
    server.register(listed)
    started = AsyncExitStack()
    try:
        await server.start()
        for service in listed:
            await _start(service, server, started)
        yield Running(bound, server.health)
    finally:
        try:
            await _drain(server, settings, listed)
        finally:
            await server.stop(0)  # at once, if the drain was interrupted
            await started.aclose()


async def _start(service: Service, server: Server, started: AsyncExitStack) -> None:
    """Start a service and its tasks, and accept its calls. `started` gets the callbacks that undo this."""
    started.push_async_callback(service.close)
    await service.start()
    for name, task in service.tasks.items():
        full_name = f"{service.name}/{name}"
        running = asyncio.create_task(_run_task(full_name, task, service, server), name=full_name)
        started.push_async_callback(_cancel, running)
    server.set_ready(service)


async def _run_task(name: str, task: Callable[[], Awaitable[None]], service: Service, server: Server) -> None:
    """Run a background task. If it fails, the service is NOT_SERVING and the process needs a restart."""
    try:
        await task()
    except Exception:
        log.exception("background task died", task=name)
        server.health.set_not_ready([*server.names(service), LIVENESS])


async def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end. The code that created the task logs its failure."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _drain(server: Server, settings: ServiceSettings, services: Sequence[Service]) -> None:
    """Run steps 1 to 6 of the shutdown."""
    began = time.monotonic()
    server.health.set_draining()
    if settings.lame_duck_seconds:
        await asyncio.sleep(settings.lame_duck_seconds)
    server.progress.end_endless()
    until = time.monotonic() + settings.drain_grace_seconds
    await _drain_services(services, settings.drain_grace_seconds)
    if len(services) > 1:
        await server.progress.wait_until_idle(max(0.0, until - time.monotonic()))
    await server.stop(max(0.0, until - time.monotonic()))
    if not await server.progress.wait_until_idle(_AFTER_GRACE_SECONDS):
        log.warning("request handlers still run after cancellation; stopping anyway", seconds=_AFTER_GRACE_SECONDS)
    log.info("drained", seconds=time.monotonic() - began)


async def _drain_services(services: Sequence[Service], seconds: float) -> None:
    """Let services end their background work, for at most `seconds`. A failure of one does not affect the others."""
    draining = {asyncio.ensure_future(service.drain()): service.name for service in services}
    _, late = await asyncio.wait(draining, timeout=seconds) if draining else (set(), set())
    for task in late:
        log.warning("drain of a service timed out", service=draining[task], seconds=seconds)
        await _cancel(task)
    for task, name in draining.items():
        if not task.cancelled() and (failure := task.exception()):
            log.error("drain of a service failed", service=name, exc_info=failure)


def choose_reachable_address(bound: str) -> str:
    """Return the address at which this process reaches itself: loopback if it is bound to all interfaces."""
    host, colon, port = bound.rpartition(":")
    own = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return bound if bound.startswith("unix:") else f"{own}{colon}{port}"


def run(build: Callable[[S, Peers], Services], settings_class: type[S], **overrides: Any) -> None:
    """Run the services that `build` returns until a signal, with the settings of the environment or of `overrides`.

    If they cannot start, print the reason on stderr and exit with status 1 (G-10).
    """
    try:
        settings = read_settings(settings_class, **overrides)
        logging.configure(settings.log_level, settings.log_format, final=True)
        uvloop.run(_main(build, settings))
    except BadSetting as error:
        exit_for(str(error))
    except asyncio.CancelledError:
        log.warning("stopped before the drain ended")
        raise SystemExit(1) from None


async def _main(build: Callable[[S, Peers], Services], settings: S) -> None:
    async with AsyncExitStack() as closing:
        metrics_address = ""
        certificates = Certificates.from_settings(settings)

        def compose(own: OwnServer) -> Services:
            peers = Peers.from_settings(settings, own, certificates)
            closing.push_async_callback(peers.close)
            services = build(settings, peers)
            nonlocal metrics_address
            sink = _start_telemetry(_process_name(services), settings, certificates)
            closing.push_async_callback(asyncio.to_thread, sink.close)
            metrics_address = sink.metrics_address
            return services

        stopping = _Stop()
        async with serve(compose, settings.listen_address, settings=settings, certificates=certificates) as running:
            log.info("server started", address=running.address, metrics_address=metrics_address, pid=os.getpid())
            stopping.may_drain = True
            await stopping.requested.wait()
            log.info("draining")


def _start_telemetry(name: str, settings: ServiceSettings, certificates: Certificates | None) -> telemetry.Telemetry:
    address = settings.metrics_address
    if certificates is None:
        require_plaintext_allowed("metrics", address, "HANSEI_METRICS_ADDRESS", settings.plaintext_kinds)
        return telemetry.install(name, address, settings.trace_sample_ratio)
    plaintext = "metrics" in settings.plaintext_kinds
    installed = telemetry.install(
        name, address, settings.trace_sample_ratio, None if plaintext else certificates.for_http()
    )
    certificates.watch_expiry()
    return installed


def _process_name(services: Services) -> str:
    names = [services.name] if isinstance(services, Service) else [service.name for service in services]
    return os.environ.get("OTEL_SERVICE_NAME") or (names[0] if len(names) == 1 else "hansei")


class _Stop:
    """SIGTERM and SIGINT: the first drains; a second one, or one during the start, ends the process."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.may_drain = False
        loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._handle_signal)

    def _handle_signal(self) -> None:
        if self._main is not None and (self.requested.is_set() or not self.may_drain):
            self._main.cancel()
        self.requested.set()
