"""The methods that the services of the client declare."""

from __future__ import annotations

from typing import Any

from hansei.client.calls import RpcMethod, ServiceClient


def collect_declared_methods(service: type[ServiceClient[Any]]) -> dict[str, RpcMethod[Any, Any]]:
    """Return the methods that a service declares, by name."""
    return {name: value for name, value in vars(service).items() if isinstance(value, RpcMethod)}
