"""Compare the sizes of images, measured as by `python -m deploy.sizes`, with the table in `deploy/README.md`."""

from __future__ import annotations

import re

import pytest

from deploy.sizes import ROOT, SERVICES, measure_megabytes
from tests.support.campaigns import campaign_cases

pytestmark = pytest.mark.long

LIMITS = dict.fromkeys(SERVICES, 200) | {"curator": 280, "search": 510, "validator": 395}
DIFFERENCE = 0.05
"""Versions of packages for other Pythons differ by this share at most."""


def table() -> dict[str, int]:
    rows = re.findall(r"^\| (\w+) \| (\d+) \|$", (ROOT / "deploy/README.md").read_text(encoding="utf-8"), re.MULTILINE)
    return {name: int(size) for name, size in rows}


def test_the_table_keeps_the_limits() -> None:
    assert list(table()) == list(SERVICES)
    assert {name: size for name, size in table().items() if size > LIMITS[name]} == {}


@pytest.mark.parametrize("service", campaign_cases(sorted(SERVICES), short=1))
def test_an_image_has_the_size_of_the_table(service: str) -> None:
    assert measure_megabytes(service) == pytest.approx(table()[service], rel=DIFFERENCE)
