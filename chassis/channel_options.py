"""The options of channels: message sizes, keepalive, reconnects, load balancing, and retries by policy."""

from __future__ import annotations

import json
from typing import Any

from chassis.policy import Policies
from chassis.status import UNANSWERED

_MS = 1000
SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "xds:")
_RETRY = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": [code.name for code in UNANSWERED],
}


def build_target(address: str) -> str:
    """Return `host:port` as a DNS name, so that gRPC finds all addresses behind it; other schemes stay."""
    return address if address.startswith(SCHEMES) else f"dns:///{address}"


def build_channel_options(policies: Policies, max_message_bytes: int, *, follow_health: bool) -> list[tuple[str, Any]]:
    """Return the channel arguments of a client."""
    return [
        ("grpc.service_config", json.dumps(build_service_config(policies, follow_health=follow_health))),
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", 60 * _MS),
        ("grpc.keepalive_timeout_ms", 20 * _MS),
        # A replica that serves again gets calls within half a second, before the next one restarts.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", _MS // 2),
        # The time for one attempt to connect, TLS included.
        ("grpc.min_reconnect_backoff_ms", 5 * _MS),
        # By default channels to one address share connections, and the options of one of them apply to all.
        ("grpc.use_local_subchannel_pool", 1),
    ]


def build_service_config(policies: Policies, *, follow_health: bool) -> dict[str, Any]:
    """Return a config with round robin over the healthy addresses, and retries where the policy allows them.

    It has no timeout, which would fire one to two seconds early. A channel to the own process does not follow health:
    its calls must still go through while the process drains.
    """
    retryable = [path.lstrip("/").split("/") for path, policy in policies.items() if policy.retry]
    config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
    if follow_health:
        config["healthCheckConfig"] = {"serviceName": ""}
    if retryable:
        names = [{"service": service, "method": method} for service, method in retryable]
        config["methodConfig"] = [{"name": names, "retryPolicy": _RETRY}]
    return config
