"""The services that the list of the contract names (`deploy/services.yaml`), and their settings and bootstraps."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import gateway
import services
from chassis.settings import ServiceSettings
from gateway.contract import GATEWAY, load_contract


def list_service_names() -> list[str]:
    """Return the names of all services in the order of their start: each after the services that it depends on."""
    return list(load_contract().services)


def load_module(service: str, module: str) -> ModuleType:
    """Import a module of a service, such as `settings`."""
    package = gateway.__name__ if service == GATEWAY else f"{services.__name__}.{service}"
    return import_module(f"{package}.{module}")


def load_settings_class(service: str) -> type[ServiceSettings]:
    """Return the settings class of a service: `SearchSettings` for `search`."""
    found: type[ServiceSettings] = getattr(load_module(service, "settings"), f"{service.capitalize()}Settings")
    return found
