"""`deploy/services.yaml` against settings, compose, locks and the Makefile: one list, and all of them follow it."""

from __future__ import annotations

import ast
import asyncio
import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis import serve
from chassis.settings import ServiceSettings, list_settings
from chassis.tests.probe import Probe, service
from gateway.contract import load_contract
from tests.support.systems import ROOT, SERVICES

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
OWN = {path.name for path in ROOT.iterdir() if path.is_dir()} | {"hansei", "buf"}
# Providers and embedders that are not in an image; they are imported only where they are chosen.
CHOSEN = {"onnx", "multilingual", "sudachi", "bedrock", "google"}


def folder(name: str) -> Path:
    return ROOT / (name if name == "gateway" else f"services/{name}")


@cache
def settings_of(name: str) -> type[ServiceSettings]:
    module = importlib.import_module(f"{folder(name).relative_to(ROOT)}/settings".replace("/", "."))
    (found,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ServiceSettings) and value.__module__ == module.__name__
    )
    return found


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_calls_those_whose_address_it_is_given(name: str) -> None:
    if name == "gateway":  # which finds the address of any service of the contract by its name
        assert sorted(SERVICES[name]["calls"]) == sorted(load_contract().peers)
        return
    fields = settings_of(name).model_fields
    assert sorted(f.removesuffix("_addr") for f in fields if f.endswith("_addr")) == sorted(SERVICES[name]["calls"])


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_listens_where_the_list_says(name: str) -> None:
    fields = settings_of(name).model_fields
    assert fields["listen_address"].default == f"127.0.0.1:{SERVICES[name]['listen']}"
    http = f"127.0.0.1:{SERVICES[name]['http']}" if "http" in SERVICES[name] else None
    assert (fields["http_address"].default if "http_address" in fields else None) == http


@pytest.mark.parametrize("name", [name for name, listed in SERVICES.items() if "database" in listed])
def test_the_variable_of_a_database_is_a_setting(name: str) -> None:
    variables = {variable for row in list_settings(settings_of(name)) for variable in row.variables}
    assert SERVICES[name]["database"] in variables


def test_ports_are_given_once() -> None:
    taken = [listed[kind] for listed in SERVICES.values() for kind in ("listen", "metrics", "http") if kind in listed]
    assert sorted(set(taken)) == sorted(taken)


def test_the_makefile_builds_every_service() -> None:
    command = ["make", "--no-print-directory", "--eval", "list: ; @echo $(SERVICES)", "list"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == sorted(SERVICES)


# --- compose


def test_compose_runs_every_service_and_its_database() -> None:
    assert set(COMPOSE["services"]) == {*SERVICES, "postgres"}


@pytest.mark.parametrize("name", SERVICES)
def test_compose_configures_a_service_as_in_the_list(name: str) -> None:  # G-15, G-17
    listed, compose_service = SERVICES[name], COMPOSE["services"][name]
    environment = compose_service["environment"]
    assert compose_service["image"] == f"hansei/{name}:{VERSION}"
    assert compose_service["pull_policy"] == "never"
    assert environment["HANSEI_LISTEN_ADDRESS"] == f"0.0.0.0:{listed['listen']}"
    assert environment["HANSEI_METRICS_ADDRESS"] == f"0.0.0.0:{listed['metrics']}"
    for peer in listed["calls"]:
        assert environment[f"{peer.upper()}_ADDR"] == f"{peer}:{SERVICES[peer]['listen']}"
    if "database" in listed:
        assert environment[listed["database"]].endswith(f"@postgres:5432/{name}")
    assert ("OPENAI_API_KEY" in environment) == listed["models"]


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_compose_gives_a_container_no_more_rights_than_it_needs(name: str) -> None:
    compose_service = COMPOSE["services"][name]
    assert compose_service["read_only"] is True
    assert compose_service["cap_drop"] == ["ALL"]
    assert compose_service["security_opt"] == ["no-new-privileges:true"]
    assert compose_service["user"] == ("999:999" if name == "postgres" else "10001:10001")


def test_compose_is_reachable_from_this_machine_only() -> None:
    published = {name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service}
    assert list(published) == ["gateway"]
    assert all(port.startswith("127.0.0.1:") for port in published["gateway"])


# --- content of an image


def test_images_are_pinned_and_run_without_rights() -> None:
    (base,) = re.findall(r"^ARG BASE=(.*)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base)
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${BASE}", "build", "scratch", "${BASE}"]
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"^(?:ENTRYPOINT|CMD) (.)", DOCKERFILE, re.MULTILINE) == ["["]


def test_the_image_with_everything_is_pinned_and_is_not_open_by_default() -> None:
    text = (ROOT / "deploy/allinone.Dockerfile").read_text()
    assert re.findall(r"^ARG BASE=(.*)$", text, re.MULTILINE) == re.findall(
        r"^ARG BASE=(.*)$", DOCKERFILE, re.MULTILINE
    )
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001:10001"]
    assert "HANSEI_AUTH=" not in re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    assert re.findall(r"^(?:ENTRYPOINT|CMD) (.*)$", text, re.MULTILINE) == ['["/opt/hansei/bin/hansei"]', '["up"]']


@pytest.mark.parametrize("name", ["Dockerfile", "allinone.Dockerfile"])
def test_a_build_needs_no_buildkit_and_its_context_has_what_it_copies(name: str) -> None:
    text = (ROOT / "deploy" / name).read_text()
    permitted = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert "--mount" not in text
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    scripts = re.findall(r"(?:source/)?(deploy/\w+\.py)", text)
    files = {word for word in [*copied, *scripts] if word.startswith("deploy/")}
    assert {file.replace("[f]", "f") for file in files} <= permitted
    folders = {word.rstrip("/") for word in copied} - files - {"."}
    assert all(any(pattern.startswith(folder) for pattern in permitted) for folder in folders)


@pytest.mark.parametrize("name", [*SERVICES, "server", "build"])
def test_an_image_has_the_versions_that_are_tested(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (uv,) = re.findall(r"^UV_VERSION := (.*)$", makefile, re.MULTILINE)
    tested = {**_pins("dev"), "uv": uv}
    assert {pin: version for pin, version in _pins(name).items() if tested.get(pin) != version} == {}


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_holds_what_its_service_imports(name: str) -> None:
    pinned = set(_pins(name)) | set(_pins("minilm") if name == "search" else ())
    distributions = _distributions()
    missing = {
        module
        for module in _imported_modules(name)
        if not {_normal(distribution) for distribution in distributions.get(module, [])}
        & (pinned | _extra_distributions())
    }
    assert missing == set()


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.lock")), ids=lambda path: str(path.stem))
def test_locks_carry_hashes_and_name_no_host(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    requirements = re.findall(r"^[A-Za-z0-9].*?(?=^[A-Za-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL)
    assert [requirement.split()[0] for requirement in requirements if "--hash=sha256:" not in requirement] == []


_distributions = cache(packages_distributions)


def _pins(lock: str) -> dict[str, str]:
    text = (ROOT / f"requirements/{lock}.lock").read_text(encoding="utf-8")
    return {_normal(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _extra_distributions() -> set[str]:
    """The distributions of extras that an image leaves out."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.split(" = ")[0] in CHOSEN]
    return {_normal(name) for line in lines for name in re.findall(r'"([\w-]+)', line)}


def _imported_modules(name: str) -> set[str]:
    """The modules of others that a service imports, with all of our code that it imports, anywhere in a file."""
    waiting, seen, found = set(folder(name).rglob("*.py")), set[Path](), set[str]()
    while waiting:
        path = waiting.pop()
        if path in seen or "tests" in path.parts:
            continue
        seen.add(path)
        for module in _imports(path):
            top = module.partition(".")[0]
            if top in OWN:
                waiting |= set(_files(module))
            elif top not in sys.stdlib_module_names:
                found.add(top)
    return found


@cache
def _imports(path: Path) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _files(module: str) -> Iterator[Path]:
    relative = Path(*module.split("."))
    for root in (ROOT, ROOT / "sdk", ROOT / "stubs"):
        yield from (p for p in (root / relative.with_suffix(".py"), root / relative / "__init__.py") if p.exists())


# --- the probe for engines without probes


@pytest.mark.parametrize("variable", ["HANSEI_LISTEN_ADDRESS", "HANSEI_HEALTH_ADDRESS"])
async def test_the_healthcheck_asks_where_health_is_plaintext(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("healthcheck", ROOT / "deploy/healthcheck.py")
    assert spec is not None
    assert spec.loader is not None
    healthcheck: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(healthcheck)
    async with serve(service(Probe())) as running:
        monkeypatch.setenv("HANSEI_LISTEN_ADDRESS", "0.0.0.0:1")
        monkeypatch.setenv(variable, running.address)
        assert await asyncio.to_thread(healthcheck.main) == 0
    assert await asyncio.to_thread(healthcheck.main) == 1
