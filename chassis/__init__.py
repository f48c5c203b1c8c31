"""The base of every service: lifecycle, server, channels, deadlines, admission, errors, health, telemetry, settings.

Nothing here depends on a service or its domain. The names below are imported on first use, so that importing
`chassis.errors` alone imports neither gRPC nor pydantic.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # As in typing, whose import takes longer than a hook of an agent may take.
if TYPE_CHECKING:
    from typing import Any

    from chassis.channels import Peers
    from chassis.errors import BadSetting
    from chassis.own_server import OwnServer
    from chassis.server.lifecycle import Running, run, serve
    from chassis.server.service import Registration, Service
    from chassis.settings import ServiceSettings, read_settings
    from chassis.tls import Certificates

_MODULES = {
    "BadSetting": "errors",
    "Certificates": "tls",
    "OwnServer": "own_server",
    "Peers": "channels",
    "Registration": "server.service",
    "Running": "server.lifecycle",
    "Service": "server.service",
    "ServiceSettings": "settings",
    "read_settings": "settings",
    "run": "server.lifecycle",
    "serve": "server.lifecycle",
}

__all__ = [
    "BadSetting",
    "Certificates",
    "OwnServer",
    "Peers",
    "Registration",
    "Running",
    "Service",
    "ServiceSettings",
    "read_settings",
    "run",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'chassis' has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
