"""The objects of each overlay fit each other, and `deploy/services.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chassis.server.lifecycle import _AFTER_GRACE_SECONDS
from services.search.settings import SearchSettings
from tests.deploy.manifests import (
    NAMES,
    OVERLAYS,
    Manifests,
    container,
    labels,
    load_manifests,
    parse_bytes,
    pod,
    ports,
)
from tests.support.systems import SERVICES

CLOSING_SECONDS = 10
HEALTH_PORT = 9440
AUTOSCALER_TOLERANCE = 1.1
"""Up to this multiple of its target, a metric adds no pod."""
METRICS_SECONDS = 120
"""A start of a pod, and the delay of metrics-server and of the autoscaler."""
# Objects that an operator creates before applying production, as deploy/README.md describes.
SECRETS_OF_PRODUCTION = {
    "gateway-token",
    "gateway-tls",
    *(f"{n}-database" for n, s in SERVICES.items() if "database" in s),
}


@pytest.fixture(params=NAMES)
def manifests(request: pytest.FixtureRequest) -> Manifests:
    return load_manifests(OVERLAYS / request.param)


@pytest.fixture
def namespace(manifests: Manifests) -> str:
    (found,) = manifests.kind("Namespace")
    return str(found["metadata"]["name"])


def test_the_manifests_have_every_service_and_nothing_else(manifests: Manifests) -> None:
    assert set(manifests.workloads()) - {"postgres", "prometheus"} == set(SERVICES)


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_those_of_the_list(manifests: Manifests, name: str) -> None:
    listed = SERVICES[name]
    workload = manifests.workloads()[name]
    expected = {"grpc": listed["listen"], "metrics": listed["metrics"]}
    expected |= {"http": listed["http"]} if "http" in listed else {}
    expected |= {"health": HEALTH_PORT} if _certificates(manifests) else {}
    assert ports(workload) == expected
    environment = _plain(container(workload))
    assert environment["HANSEI_LISTEN_ADDRESS"] == f"0.0.0.0:{listed['listen']}"
    assert environment["HANSEI_METRICS_ADDRESS"] == f"0.0.0.0:{listed['metrics']}"
    assert environment.get("HANSEI_HTTP_ADDRESS") == (f"0.0.0.0:{listed['http']}" if "http" in listed else None)


@pytest.mark.parametrize("name", SERVICES)
def test_probes_are_asked_by_the_kubelet_itself(manifests: Manifests, name: str) -> None:
    workload = container(manifests.workloads()[name])
    # If gRPC uses TLS, the probe calls the port that serves only health, in plaintext.
    port = HEALTH_PORT if _certificates(manifests) else SERVICES[name]["listen"]
    address = _plain(workload).get("HANSEI_HEALTH_ADDRESS")
    assert address == (f"0.0.0.0:{HEALTH_PORT}" if _certificates(manifests) else None)
    assert workload["startupProbe"]["grpc"] == {"port": port}
    assert workload["readinessProbe"]["grpc"] == {"port": port}
    assert workload["livenessProbe"]["grpc"] == {"port": port, "service": "liveness"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_pod_is_given_longer_than_a_drain_takes(manifests: Manifests, name: str) -> None:
    workload = manifests.workloads()[name]
    environment = _plain(container(workload))
    sleep = container(workload)["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = float(environment["HANSEI_LAME_DUCK_SECONDS"]) + float(environment["HANSEI_DRAIN_GRACE_SECONDS"])
    least = sleep + drain + _AFTER_GRACE_SECONDS + CLOSING_SECONDS
    assert pod(workload)["terminationGracePeriodSeconds"] >= least


def test_pods_have_only_the_rights_that_they_need(manifests: Manifests) -> None:
    for name, workload in manifests.workloads().items():
        security = pod(workload)["securityContext"]
        assert security["runAsNonRoot"], name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert container(workload)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert pod(workload)["automountServiceAccountToken"] is False, name
        assert pod(workload)["enableServiceLinks"] is False, name
        assert container(workload)["resources"]["limits"]["memory"], name
        account = manifests.manifest("ServiceAccount", pod(workload)["serviceAccountName"])
        assert account["automountServiceAccountToken"] is False, name


def test_services_lead_to_ports_of_pods(manifests: Manifests) -> None:
    for service in manifests.kind("Service"):
        (target,) = manifests.pods_of(service["spec"]["selector"])
        for port in service["spec"]["ports"]:
            assert ports(manifests.workloads()[target])[port["targetPort"]] == port["port"], service["metadata"]["name"]


@pytest.mark.parametrize("name", SERVICES)
def test_callers_see_every_pod(manifests: Manifests, name: str) -> None:
    assert manifests.manifest("Service", name)["spec"]["clusterIP"] == "None"


def test_names_that_are_referred_to_exist(manifests: Manifests, namespace: str) -> None:
    made_beforehand = SECRETS_OF_PRODUCTION if namespace == "hansei" else set()
    existing = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests.objects}
    existing |= {("Secret", name) for name in made_beforehand}
    existing |= {("Secret", certificate["spec"]["secretName"]) for certificate in manifests.kind("Certificate")}
    references = {reference for manifest in manifests.objects for reference in _references(manifest)}
    assert references - existing == set()
    # Every generated object is used, too.
    left = {(kind, name) for kind, name in existing if kind in ("ConfigMap", "Secret")} - references
    assert left - {("ConfigMap", "hansei-dashboard")} == set()  # for a Grafana outside of the manifests


def test_keys_that_are_referred_to_exist(manifests: Manifests, namespace: str) -> None:
    if namespace == "hansei":
        assert list(manifests.kind("Secret")) == []
        return
    for workload in manifests.workloads().values():
        manifests.environment(container(workload))


def test_everything_is_in_the_namespace(manifests: Manifests, namespace: str) -> None:
    assert {
        manifest["metadata"].get("namespace") for manifest in manifests.objects if manifest["kind"] != "Namespace"
    } == {namespace}


def test_the_namespace_refuses_less_restricted_pods(manifests: Manifests) -> None:
    (found,) = manifests.kind("Namespace")
    assert found["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("kind", ["PodDisruptionBudget"])
def test_disruptions_are_bounded_for_each_service(manifests: Manifests, kind: str) -> None:
    for name in SERVICES:
        assert manifests.pods_of(manifests.manifest(kind, name)["spec"]["selector"]["matchLabels"]) == [name]


def test_pods_are_spread_apart_from_their_own_kind(manifests: Manifests) -> None:
    for name in SERVICES:
        workload = manifests.workloads()[name]
        constraints = pod(workload)["topologySpreadConstraints"]
        assert {constraint["topologyKey"] for constraint in constraints} == {
            "topology.kubernetes.io/zone",
            "kubernetes.io/hostname",
        }
        for constraint in constraints:
            assert manifests.pods_of(constraint["labelSelector"]["matchLabels"]) == [name]


@pytest.mark.parametrize("overlay", ["large", "production"])
def test_production_scales_every_service(overlay: str) -> None:
    manifests = load_manifests(OVERLAYS / overlay)
    scaled = {scaler["spec"]["scaleTargetRef"]["name"]: scaler for scaler in manifests.kind("HorizontalPodAutoscaler")}
    assert set(scaled) == set(SERVICES)
    for name, scaler in scaled.items():
        workload = manifests.workloads()[name]
        assert scaler["spec"]["scaleTargetRef"]["kind"] == workload["kind"]
        assert scaler["spec"]["minReplicas"] >= 2
        # A number here would override the autoscaler at every apply.
        assert "replicas" not in workload["spec"]


@pytest.mark.parametrize("overlay", ["large", "production"])
def test_search_gets_another_pod_before_it_evicts_indexes(overlay: str) -> None:
    manifests = load_manifests(OVERLAYS / overlay)
    search = container(manifests.workloads()["search"])
    scaler = manifests.manifest("HorizontalPodAutoscaler", "search")["spec"]
    targets = {metric["resource"]["name"]: metric["resource"]["target"] for metric in scaler["metrics"]}
    evicting = int(_plain(search)["HANSEI_SEARCH_MEMORY_MB"]) * 2**20
    assert set(targets) == {"cpu", "memory"}
    assert targets["memory"]["type"] == "AverageValue"
    assert parse_bytes(targets["memory"]["averageValue"]) * AUTOSCALER_TOLERANCE < evicting
    assert evicting < parse_bytes(search["resources"]["limits"]["memory"])


@pytest.mark.parametrize("overlay", ["large", "production"])
def test_search_gets_the_next_pod_when_the_others_released_the_indexes_of_the_last_one(overlay: str) -> None:
    manifests = load_manifests(OVERLAYS / overlay)
    search = container(manifests.workloads()["search"])
    assert {"name": "HANSEI_SEARCH_OWN_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}} in search["env"]
    changed = {variable["name"] for variable in search["env"]}
    assert not {"HANSEI_SEARCH_RELEASE_SECONDS", "HANSEI_SEARCH_SNAPSHOT_SECONDS"} & changed
    settings = SearchSettings()
    released = settings.search_release_seconds + settings.search_snapshot_seconds + METRICS_SECONDS
    scaler = manifests.manifest("HorizontalPodAutoscaler", "search")["spec"]
    (policy,) = scaler["behavior"]["scaleUp"]["policies"]
    assert (policy["type"], policy["value"]) == ("Pods", 1)
    assert policy["periodSeconds"] > released


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_those_of_the_services(manifests: Manifests, name: str) -> None:
    workload = manifests.workloads()[name]
    image, _, tag = container(workload)["image"].rpartition(":")
    assert image.rpartition("/")[2] == name
    assert tag not in ("", "latest")
    assert labels(workload) == {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "hansei"}


def _certificates(manifests: Manifests) -> list[Any]:
    return list(manifests.kind("Certificate"))


def _plain(container: Any) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def _references(value: Any) -> Iterator[tuple[str, str]]:
    """Objects that an object names: config maps, secrets, accounts, services, issuers and scale targets."""
    kinds = {"configMapRef": "ConfigMap", "secretRef": "Secret", "secretKeyRef": "Secret", "configMap": "ConfigMap"}
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in kinds and not item.get("optional"):
                yield kinds[key], item["name"]
            elif key in ("scaleTargetRef", "issuerRef"):
                yield item["kind"], item["name"]
            elif isinstance(item, str) and (key == "secret" or (key == "secretName" and "issuerRef" not in value)):
                yield "Secret", item  # but cert-manager creates the Secret of a certificate
            elif key == "serviceAccountName":
                yield "ServiceAccount", item
            elif key == "service" and isinstance(item, dict):
                yield "Service", item["name"]
            else:
                yield from _references(item)
