"""The client of hansei: `Client` blocks, `AsyncClient` awaits; both connect to one address, the gateway's.

    from hansei.client import Client

    with Client() as client:                      # HANSEI_ADDR, else 127.0.0.1:50050
        response = client.search("devtools", "a push was rejected")
        for result in response.results:
            print(result.combined_score, result.bullet.content)

Each service is an attribute with every RPC of the service: ``client.playbooks.get(dataset="devtools")``. Calls raise
the errors of `hansei.client.errors` and have the deadlines and retries of the contract's policy. Every mutation is sent
with a `request_id`, so that a retry takes effect once. ``with time_limit(2.0):`` limits the calls of a block to two
seconds.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # As in typing, whose import takes longer than a hook of an agent may take.
if TYPE_CHECKING:
    from chassis.deadlines import time_limit
    from hansei.client import errors
    from hansei.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "errors", "time_limit"]


def __getattr__(name: str) -> object:
    """Load gRPC only when a client is used: `hansei --help` needs none."""
    if name == "time_limit":
        from chassis.deadlines import time_limit

        return time_limit
    if name == "errors":
        return import_module("hansei.client.errors")
    if name in __all__:
        from hansei.client import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
