"""A campaign is short unless the environment asks for the full size."""

from __future__ import annotations

import pytest

from tests.support.campaigns import VARIABLE, campaign_size


@pytest.mark.parametrize(("chosen", "size"), [("full", 10_000), ("short", 10), ("", 10)])
def test_a_campaign_is_short_unless_it_is_to_be_full(monkeypatch: pytest.MonkeyPatch, chosen: str, size: int) -> None:
    monkeypatch.setenv(VARIABLE, chosen)
    assert campaign_size(10_000, 10) == size


def test_without_the_variable_a_campaign_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert campaign_size(10_000, 10) == 10


@pytest.mark.parametrize("chosen", ["Full", "1", "long"])
def test_an_unknown_size_of_campaign_is_refused(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    monkeypatch.setenv(VARIABLE, chosen)
    with pytest.raises(ValueError, match=f"must be one of short, full \\(got '{chosen}'\\)"):
        campaign_size(10_000, 10)
