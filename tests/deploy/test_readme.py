"""Every command of deploy/README.md is run, or its files are checked, or it is listed with a reason for neither."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.deploy.manifests import OVERLAYS, container, load_manifests, ports
from tests.deploy.readme import commands, make_env_file, variables
from tests.deploy.test_manifests import SECRETS_OF_PRODUCTION
from tests.support.systems import ROOT

COMPOSE = (ROOT / "deploy/compose.yaml").read_text(encoding="utf-8")
NAMESPACES = {"hansei-dev": "dev", "hansei": "production"}


def a_make_target(command: str, found: re.Match[str]) -> None:
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", found[1]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def check_stand_in(command: str, found: re.Match[str]) -> None:
    """Check that a stand-in image has a Dockerfile, and that a documented command uses it."""
    assert (ROOT / found[2] / "Dockerfile").is_file()
    assert any(f"POSTGRES_IMAGE={found[1]} " in command for command in commands())


def check_overlay(command: str, found: re.Match[str]) -> None:
    assert load_manifests(ROOT / found[1]).objects


def a_file_of_objects(command: str, found: re.Match[str]) -> None:
    assert all("kind" in manifest for manifest in yaml.safe_load_all((ROOT / found[1]).read_text(encoding="utf-8")))


def a_workload(command: str, found: re.Match[str]) -> None:
    workload = load_manifests(OVERLAYS / NAMESPACES[found[1]]).workloads()[found[2]]
    assert workload["kind"] == "Deployment"
    assert {int(port) for port in found[3].split()} <= set(ports(workload).values())


def a_secret(command: str, found: re.Match[str]) -> None:
    name, key = found[2], found[3]
    assert name in SECRETS_OF_PRODUCTION
    references = [
        variable["valueFrom"]["secretKeyRef"]
        for workload in load_manifests(OVERLAYS / NAMESPACES[found[1]]).workloads().values()
        for variable in container(workload).get("env", [])
        if "secretKeyRef" in variable.get("valueFrom", {})
    ]
    assert {"name": name, "key": key} in references


def the_databases(command: str, found: re.Match[str]) -> None:
    """The overlays are walked through on a real server that this very script has set up."""
    mounted = [
        config_map["data"]
        for config_map in load_manifests(OVERLAYS / "dev").kind("ConfigMap")
        if "databases.sql" in config_map["data"]
    ]
    assert [config_map["databases.sql"] for config_map in mounted] == [(ROOT / found[1]).read_text(encoding="utf-8")]


Check = Callable[[str, re.Match[str]], None]
CHECKED: dict[str, Check] = {
    r"make ([a-z-]+)( .*)?": a_make_target,
    r"docker build --network host .* -t (\S+) (\S+)": check_stand_in,
    r"kubectl apply -k (\S+)": check_overlay,
    r"kubectl apply -f (\S+)": a_file_of_objects,
    r"kubectl -n (\S+) rollout status deployment/(\w+)()": a_workload,
    r"kubectl -n (\S+) port-forward deployment/(\w+) ([\d ]+)": a_workload,
    r"kubectl -n (\S+) create secret generic (\S+) --from-\w+=([\w-]+)=.*": a_secret,
    r"psql -f (\S+)": the_databases,
}
NOT_RUN = {
    r"docker run .* hansei/hansei:\S+": "needs a container engine; tests/install runs what the image installs",
    r"debootstrap .*": "needs root and a Debian mirror; `make images-check` was run on what it makes",
    r"tar .* \| docker import .*": "needs a container engine",
}


@pytest.mark.parametrize("command", commands())
def test_every_command_is_accounted_for(command: str) -> None:
    for pattern, check in CHECKED.items():
        if found := re.fullmatch(pattern, command, re.DOTALL):
            check(command, found)
            return
    for pattern, reason in NOT_RUN.items():
        if re.fullmatch(pattern, command, re.DOTALL):
            pytest.skip(reason)
    pytest.fail(f"{command} has neither a check nor a reason to skip it")


def test_the_makefile_makes_the_environment_of_compose(tmp_path: Path) -> None:
    made = make_env_file(tmp_path)
    environment = variables(made)
    assert made.stat().st_mode & 0o077 == 0
    assert set(environment) == set(re.findall(r"\$\{(\w+):\?", COMPOSE))
    assert all(re.fullmatch("[0-9a-f]{48}", value) for value in environment.values())
    assert len(set(environment.values())) == len(environment)


def test_the_makefile_keeps_an_environment_that_exists(tmp_path: Path) -> None:
    made = make_env_file(tmp_path)
    before = made.read_text()
    subprocess.run(
        ["make", "--silent", "-f", str(ROOT / "Makefile"), "deploy/.env"], cwd=tmp_path, check=True, timeout=60
    )
    assert made.read_text() == before


def test_the_makefile_leaves_no_environment_without_passwords(tmp_path: Path) -> None:
    """An empty file would look made: the next call would keep it."""
    command = ["make", "--silent", "-f", str(ROOT / "Makefile"), "deploy/.env", "PYTHON=false"]
    (tmp_path / "deploy").mkdir()
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=60, stderr=subprocess.DEVNULL).returncode != 0
    assert not (tmp_path / "deploy/.env").exists()
