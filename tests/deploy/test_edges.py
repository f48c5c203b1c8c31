"""The network lets through who calls whom in `deploy/services.yaml`, and nothing else.

The policies are evaluated here as Kubernetes defines them: a pod that any policy selects takes, or makes, only the
connections that some policy allows; a connection needs the consent of both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.manifests import NAMES, OVERLAYS, Manifests, labels, load_manifests, ports
from tests.support.systems import SERVICES

DATABASE = "postgres"
DATABASE_PORT = 5432
WATCHER = "prometheus"


@pytest.fixture(params=NAMES)
def manifests(request: pytest.FixtureRequest) -> Manifests:
    return load_manifests(OVERLAYS / request.param)


def test_pods_reach_those_they_call_and_no_others(manifests: Manifests) -> None:
    pods = list(manifests.workloads())
    found = {(a, b, port) for a in pods for b in pods for port in _open_ports(manifests, a, b)}
    expected = {(a, b, SERVICES[b]["listen"]) for a, listed in SERVICES.items() for b in listed["calls"]}
    if DATABASE in pods:
        expected |= {(name, DATABASE, DATABASE_PORT) for name, listed in SERVICES.items() if "database" in listed}
    if WATCHER in pods:
        expected |= {(WATCHER, name, listed["metrics"]) for name, listed in SERVICES.items()}
    assert found == expected


def test_only_services_that_call_models_reach_the_internet(manifests: Manifests) -> None:
    for name, listed in SERVICES.items():
        blocks = [
            (peer["ipBlock"]["cidr"], port["port"])
            for rule in _rules(manifests, name, "Egress")
            for peer in rule.get("to", [])
            if "ipBlock" in peer
            for port in rule["ports"]
        ]
        assert (("0.0.0.0/0", 443) in blocks) == listed["models"], name
        assert {port for _, port in blocks} <= {443, DATABASE_PORT}, name
        if DATABASE not in manifests.workloads():
            assert any(port == DATABASE_PORT for _, port in blocks) == ("database" in listed), name


def test_only_the_gateway_takes_calls_from_outside_its_namespace(manifests: Manifests) -> None:
    for name in manifests.workloads():
        foreign = {
            str(port["port"])
            for rule in _rules(manifests, name, "Ingress")
            for peer in rule["from"]
            if "namespaceSelector" in peer
            for port in rule["ports"]
        }
        assert foreign <= ({"metrics", "grpc", "http"} if name == "gateway" else {"metrics"}), name


def test_no_rule_is_open_to_everyone(manifests: Manifests) -> None:
    for name in manifests.workloads():
        assert all(rule["from"] and rule["ports"] for rule in _rules(manifests, name, "Ingress")), name
        assert all(rule["to"] and rule["ports"] for rule in _rules(manifests, name, "Egress")), name


def _open_ports(manifests: Manifests, source: str, target: str) -> set[int]:
    out = set(_allowed_peers(manifests, source, "Egress", "to", target))
    into = set(_allowed_peers(manifests, target, "Ingress", "from", source))
    named = ports(manifests.workloads()[target])
    return {named.get(str(port), port) for port in out} & {named.get(str(port), port) for port in into}


def _allowed_peers(manifests: Manifests, pod: str, direction: str, side: str, other: str) -> Iterator[Any]:
    for rule in _rules(manifests, pod, direction):
        for peer in rule[side]:
            # A selector of namespaces matches this namespace only if it is `{}`, which matches all.
            elsewhere = peer.get("namespaceSelector", {}).get("matchLabels")
            selector = peer.get("podSelector")
            if selector is not None and not elsewhere and _selects(selector, labels(manifests.workloads()[other])):
                yield from (port["port"] for port in rule["ports"])


def _rules(manifests: Manifests, pod: str, direction: str) -> list[Any]:
    """The rules of all policies that hold for a pod; fails if none does, because then everything is allowed."""
    own = labels(manifests.workloads()[pod])
    chosen = [
        policy["spec"]
        for policy in manifests.kind("NetworkPolicy")
        if direction in policy["spec"]["policyTypes"] and _selects(policy["spec"]["podSelector"], own)
    ]
    assert chosen, f"no policy restricts {direction} of {pod}"
    return [rule for spec in chosen for rule in spec.get(direction.lower()) or []]


def _selects(selector: Any, own: dict[str, str]) -> bool:
    unknown = set(selector) - {"matchLabels", "matchExpressions"}
    assert not unknown, unknown
    if not selector.get("matchLabels", {}).items() <= own.items():
        return False
    for expression in selector.get("matchExpressions", []):
        assert expression["operator"] == "In", expression
        if own.get(expression["key"]) not in expression["values"]:
            return False
    return True
