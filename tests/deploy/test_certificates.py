"""Certificates of production: of the shape that cert-manager and Traefik take, for the right names and callers.

kubernetes-validate has no schemas of these kinds, so their shape is checked here: the fields used, and no others.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from tests.deploy.manifests import OVERLAYS, Manifests, container, load_manifests, pod
from tests.support.systems import SERVICES

NAMESPACE = "hansei"


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Name(Shape):
    name: str
    namespace: str
    labels: dict[str, str] = Field(default_factory=dict)


class PrivateKey(Shape):
    algorithm: str = Field(pattern="^ECDSA$")
    size: int = Field(ge=256, le=256)
    rotationPolicy: str = Field(pattern="^(Always|Never)$")  # noqa: N815


class IssuerRef(Shape):
    group: str = Field(pattern=r"^cert-manager\.io$")
    kind: str = Field(pattern="^Issuer$")
    name: str


class CertificateSpec(Shape):
    secretName: str  # noqa: N815
    issuerRef: IssuerRef  # noqa: N815
    privateKey: PrivateKey  # noqa: N815
    duration: str = Field(pattern=r"^\d+h$")
    renewBefore: str = Field(pattern=r"^\d+h$")  # noqa: N815
    isCA: bool = False  # noqa: N815
    commonName: str = Field("", max_length=64)  # noqa: N815
    dnsNames: list[str] = Field(default_factory=list)  # noqa: N815
    usages: list[str] = Field(default_factory=list)


class Authority(Shape):
    secretName: str  # noqa: N815


class EmptySpec(Shape):
    pass


class IssuerSpec(Shape):
    selfSigned: EmptySpec | None = None  # noqa: N815
    ca: Authority | None = None


class RootCa(Shape):
    secret: str


class TransportSpec(Shape):
    serverName: str  # noqa: N815
    rootCAs: list[RootCa]  # noqa: N815


KINDS: dict[tuple[str, str], type[Shape]] = {
    ("cert-manager.io/v1", "Certificate"): CertificateSpec,
    ("cert-manager.io/v1", "Issuer"): IssuerSpec,
    ("traefik.io/v1alpha1", "ServersTransport"): TransportSpec,
}


@pytest.fixture
def production() -> Manifests:
    return load_manifests(OVERLAYS / "production")


def test_kinds_without_a_schema_have_their_shape(production: Manifests) -> None:
    found = [manifest for manifest in production.objects if manifest["kind"] in {kind for _, kind in KINDS}]
    assert {(manifest["apiVersion"], manifest["kind"]) for manifest in found} == set(KINDS)
    for manifest in found:
        assert set(manifest) == {"apiVersion", "kind", "metadata", "spec"}
        Name.model_validate(manifest["metadata"])
        KINDS[manifest["apiVersion"], manifest["kind"]].model_validate(manifest["spec"])


def test_every_service_has_a_certificate_for_its_names(production: Manifests) -> None:
    for name in SERVICES:
        certificate = production.manifest("Certificate", name)["spec"]
        under = f"{name}.{NAMESPACE}"
        assert certificate["dnsNames"] == [name, under, f"{under}.svc", f"{under}.svc.cluster.local"]
        assert certificate["usages"] == ["digital signature", "server auth", "client auth"]
        assert certificate["issuerRef"]["name"] == "hansei"
        mounted = {
            v["name"]: v["secret"]["secretName"] for v in pod(_workload(production, name))["volumes"] if "secret" in v
        }
        assert mounted == {"certificate": certificate["secretName"]}


def test_a_certificate_is_renewed_well_before_it_ends(production: Manifests) -> None:
    for certificate in production.kind("Certificate"):
        duration, before = (int(certificate["spec"][key].removesuffix("h")) for key in ("duration", "renewBefore"))
        assert duration / 10 <= before <= duration / 2, certificate["metadata"]["name"]


def test_the_key_of_the_authority_is_in_no_pod(production: Manifests) -> None:
    authority = production.manifest("Certificate", "hansei-authority")["spec"]
    assert production.manifest("Issuer", "hansei")["spec"] == {"ca": {"secretName": authority["secretName"]}}
    for name in production.workloads():
        assert authority["secretName"] not in yaml.safe_dump(dict(_workload(production, name)))


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_takes_the_callers_of_the_list(production: Manifests, name: str) -> None:
    environment = production.environment(container(_without_secrets(_workload(production, name))))
    callers = sorted(other for other, listed in SERVICES.items() if name in listed["calls"])
    assert environment.get("HANSEI_TLS_CALLERS", "") == ",".join(callers)
    assert environment["HANSEI_PLAINTEXT"] == "health"
    (mount,) = (
        volume_mount["mountPath"]
        for volume_mount in container(_workload(production, name))["volumeMounts"]
        if volume_mount["name"] == "certificate"
    )
    files = [environment[f"HANSEI_TLS_{suffix}"] for suffix in ("CERTIFICATE", "KEY", "AUTHORITIES")]
    assert files == [f"{mount}/{file}" for file in ("tls.crt", "tls.key", "ca.crt")]


def test_the_plaintext_port_is_in_no_service_and_no_policy(production: Manifests) -> None:
    for manifest in production.kind("Service", "NetworkPolicy"):
        assert "9440" not in yaml.safe_dump(dict(manifest)), manifest["metadata"]["name"]
        assert "health" not in yaml.safe_dump(dict(manifest)), manifest["metadata"]["name"]


def test_prometheus_believes_only_the_name_it_scrapes(production: Manifests) -> None:
    volumes = {volume["name"]: volume for volume in pod(_workload(production, "prometheus"))["volumes"]}
    text = production.manifest("ConfigMap", volumes["settings"]["configMap"]["name"])["data"]["prometheus.yml"]
    for job in yaml.safe_load(text)["scrape_configs"]:
        assert job["scheme"] == "https"
        assert job["tls_config"] == {"ca_file": "/etc/hansei/tls/ca.crt", "server_name": job["job_name"]}
    assert volumes["authority"]["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]


def test_the_ingress_uses_tls_to_the_gateway(production: Manifests) -> None:
    transport = production.manifest("ServersTransport", "gateway")["spec"]
    assert transport["serverName"] in production.manifest("Certificate", "gateway")["spec"]["dnsNames"]
    for name in ("gateway", "gateway-grpc"):
        annotations = production.manifest("Service", name)["metadata"]["annotations"]
        assert annotations == {
            "traefik.ingress.kubernetes.io/service.serversscheme": "https",
            "traefik.ingress.kubernetes.io/service.serverstransport": f"{NAMESPACE}-gateway@kubernetescrd",
        }


def test_no_service_is_configured_for_plaintext(production: Manifests) -> None:
    protocols = {port.get("appProtocol") for service in production.kind("Service") for port in service["spec"]["ports"]}
    assert protocols == {"https", None}


def _workload(production: Manifests, name: str) -> Any:
    return production.workloads()[name]


def _without_secrets(workload: Any) -> Any:
    """The workload without the variables that come from Secrets, which production does not hold."""
    original = container(workload)
    original = {**original, "env": [variable for variable in original["env"] if "value" in variable]}
    return {"spec": {"template": {"spec": {"containers": [original]}}}}
