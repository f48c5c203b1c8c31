"""A campaign is short unless the environment asks for the full size, or for the share that it belongs to."""

from __future__ import annotations

import pytest

from tests.support.campaigns import SHARES, VARIABLE, campaign_cases, campaign_size, find_share

CASES = range(3 * SHARES + 1)


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
    assert sizes[(find_share(__name__) - start) % SHARES] == 10_000
    assert sorted(cases) == list(CASES)
    monkeypatch.setenv(VARIABLE, "full")
    assert campaign_cases(CASES, 2) == CASES


@pytest.mark.parametrize("chosen", ["Full", "1", "long", "share", "share:", "share:x", "share:-1"])
def test_an_unknown_size_of_campaign_is_refused(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    monkeypatch.setenv(VARIABLE, chosen)
    with pytest.raises(ValueError, match=f"must be short, full or share:NUMBER \\(got '{chosen}'\\)"):
        campaign_size(10_000, 10)
