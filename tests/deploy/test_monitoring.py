"""Prometheus scrapes every service, and each alert has a runbook."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import OVERLAYS, load_manifests, pod
from tests.support.systems import ROOT, SERVICES

RUNBOOKS = ROOT / "docs/operations/README.md"


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
