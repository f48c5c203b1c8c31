"""How any service runs: lifecycle, server, channels, deadlines, admission, errors, health, telemetry, settings.

Nothing here knows a service or a noun of the domain. The names below are imported when they are used, so that
importing `chassis.errors` alone brings in neither gRPC nor pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chassis.channels import Peers
    from chassis.errors import BadSetting
    from chassis.server.lifecycle import Running, run, serve
    from chassis.server.service import Registration, Service
    from chassis.settings import ServiceSettings, load
    from chassis.tls import Certificates

_HOMES = {
    "BadSetting": "errors",
    "Certificates": "tls",
    "Peers": "channels",
    "Registration": "server.service",
    "Running": "server.lifecycle",
    "Service": "server.service",
    "ServiceSettings": "settings",
    "load": "settings",
    "run": "server.lifecycle",
    "serve": "server.lifecycle",
}

__all__ = [
    "BadSetting",
    "Certificates",
    "Peers",
    "Registration",
    "Running",
    "Service",
    "ServiceSettings",
    "load",
    "run",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'chassis' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
