"""The client of hansei: `Client` blocks, `AsyncClient` awaits; both speak to one address, the gateway's.

    from hansei.client import Client

    with Client() as client:                      # HANSEI_ADDR, else 127.0.0.1:50050
        found = client.search("devtools", "a push was rejected")
        for result in found.results:
            print(result.combined_score, result.bullet.content)

Every RPC of every service is there under its service: ``client.playbooks.get(dataset="devtools")``. Calls raise the
errors of `hansei.client.errors`, have the deadlines and retries of the contract's policy, and every mutation is sent
under one `request_id`, so that a retry takes effect once. ``with time_limit(2.0):`` gives the calls of a block two
seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chassis.deadlines import time_limit
    from hansei.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "time_limit"]


def __getattr__(name: str) -> object:
    """Load gRPC only when a client is asked for: `hansei --help` needs none."""
    if name == "time_limit":
        from chassis.deadlines import time_limit

        return time_limit
    if name in __all__:
        from hansei.client import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
