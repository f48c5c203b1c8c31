"""A campaign is short unless the environment asks for the full size, or for the share that it belongs to."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.support import campaigns
from tests.support.campaigns import FILES_OF_SHARES, SHARES, VARIABLE, campaign_cases, campaign_size, find_share
from tests.support.systems import ROOT

CASES = range(3 * SHARES + 1)
OWN_SHARE = 2


@pytest.fixture(autouse=True)
def own_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put this file into a share, as a file with a campaign is."""
    shares = list(FILES_OF_SHARES)
    shares[OWN_SHARE] |= {"test_campaigns"}
    monkeypatch.setattr(campaigns, "FILES_OF_SHARES", tuple(shares))


def has_campaign(file: Path) -> bool:
    """Return whether a test file calls `campaign_size`."""
    calls = (node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == "campaign_size" for call in calls)


def test_each_file_with_a_campaign_is_in_one_share() -> None:
    folders = ("tests", "chassis", "libs", "services", "gateway", "allinone", "sdk")
    files = [file for folder in folders for file in (ROOT / folder).rglob("test_*.py")]
    listed = Counter(name for share in FILES_OF_SHARES for name in share)
    found = {file.stem for file in files if "campaign_size" in file.read_text(encoding="utf-8") and has_campaign(file)}
    assert listed == Counter(found - {"test_campaigns"})


def test_a_file_that_is_in_no_share_is_named() -> None:
    with pytest.raises(ValueError, match="test_other must be in one of FILES_OF_SHARES"):
        find_share("tests.test_other")


@pytest.mark.parametrize(("chosen", "size"), [("full", 10_000), ("short", 10), ("", 10)])
def test_a_campaign_is_short_unless_it_is_to_be_full(monkeypatch: pytest.MonkeyPatch, chosen: str, size: int) -> None:
    monkeypatch.setenv(VARIABLE, chosen)
    assert campaign_size(10_000, 10) == size


def test_without_the_variable_a_campaign_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert campaign_size(10_000, 10) == 10
    assert list(campaign_cases(CASES, 2)) == [0, 1]


@pytest.mark.parametrize("start", [0, 12_345_678])
def test_successive_shares_cover_every_campaign_once(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    sizes: list[int] = []
    cases: list[int] = []
    for number in range(start, start + SHARES):
        monkeypatch.setenv(VARIABLE, f"share:{number}")
        sizes.append(campaign_size(10_000, 10))
        cases += campaign_cases(CASES, 2)
    assert sorted(sizes) == [*[10] * (SHARES - 1), 10_000]
    assert sizes[(OWN_SHARE - start) % SHARES] == 10_000
    assert sorted(cases) == list(CASES)
    monkeypatch.setenv(VARIABLE, "full")
    assert campaign_cases(CASES, 2) == CASES


@pytest.mark.parametrize("chosen", ["Full", "1", "long", "share", "share:", "share:x", "share:-1"])
def test_an_unknown_size_of_campaign_is_refused(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    monkeypatch.setenv(VARIABLE, chosen)
    with pytest.raises(ValueError, match=f"must be short, full or share:NUMBER \\(got '{chosen}'\\)"):
        campaign_size(10_000, 10)
