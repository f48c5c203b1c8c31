"""Prometheus scrapes every service, and each alert has a runbook."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import OVERLAYS, load_manifests, pod
from tests.support.systems import ROOT, SERVICES

RUNBOOKS = ROOT / "docs/operations/README.md"
CODE = ("chassis", "gateway", "libs", "services")


@pytest.fixture
def settings() -> dict[str, Any]:
    """The files that Prometheus is given."""
    manifests = load_manifests(OVERLAYS / "production")
    volumes = pod(manifests.workloads()["prometheus"])["volumes"]
    (mounted,) = (volume["configMap"]["name"] for volume in volumes if "configMap" in volume)
    return {name: yaml.safe_load(text) for name, text in manifests.manifest("ConfigMap", mounted)["data"].items()}


@pytest.fixture
def alerts(settings: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in settings["alerts.yaml"]["groups"] for rule in group["rules"]]


def test_every_service_is_scraped(settings: dict[str, Any]) -> None:
    scraped = {
        (scrape["job_name"], *names["names"], names["port"])
        for scrape in settings["prometheus.yml"]["scrape_configs"]
        for names in scrape["dns_sd_configs"]
    }
    assert scraped == {(name, name, listed["metrics"]) for name, listed in SERVICES.items()}


def test_an_alert_covers_every_missing_service(alerts: list[dict[str, Any]]) -> None:
    (rule,) = (alert for alert in alerts if alert["alert"] == "HanseiServiceMissing")
    assert sorted(re.findall(r'absent\(up\{job="(\w+)"\}\)', rule["expr"])) == sorted(SERVICES)


def test_every_alert_has_a_runbook(alerts: list[dict[str, Any]]) -> None:
    headings = re.findall(r"^## (.*)$", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    for rule in alerts:
        path, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert ROOT / path == RUNBOOKS
        assert anchor in anchors, rule["alert"]


def test_the_runbook_of_refused_calls_explains_every_reason() -> None:
    sections = RUNBOOKS.read_text(encoding="utf-8").split("\n## ")
    (section,) = (text for text in sections if text.startswith("Calls are refused"))
    reasons = {reason for folder in CODE for path in (ROOT / folder).rglob("*.py") for reason in find_reasons(path)}
    assert {"OVERLOADED", "CPU_QUEUE_FULL", "STORE_FULL"} <= reasons
    assert {reason for reason in reasons if f"`{reason}`" not in section} == set()


def find_reasons(path: Path) -> set[str]:
    """Return the reasons with which a file refuses calls: of subclasses of ResourceExhausted, and of its instances."""
    if "tests" in path.parts:
        return set()
    tree = ast.parse(path.read_bytes())
    constants = {
        name.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name in node.targets
        if isinstance(name, ast.Name)
    }
    values: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and "ResourceExhausted" in map(ast.unparse, node.bases):
            values += [
                item.value
                for item in node.body
                if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == "reason"
            ]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "ResourceExhausted":
            values += [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
    values = [constants.get(value.id, value) if isinstance(value, ast.Name) else value for value in values]
    return {str(value.value) for value in values if isinstance(value, ast.Constant)}
