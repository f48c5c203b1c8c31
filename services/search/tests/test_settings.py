"""Invalid settings stop the start, and settings choose the BM25 formula."""

from __future__ import annotations

import pytest

import chassis
from services.search.domain.bm25 import LUCENE, OKAPI
from services.search.settings import SearchSettings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SEARCH_ALPHA", "1.5"),
        ("SEARCH_ALPHA", "-0.1"),
        ("SEARCH_ALPHA", "nan"),
        ("SEARCH_ALPHA", "half"),
        ("SEARCH_TOKENIZER", "mecab"),
        ("SEARCH_BM25", "plus"),
        ("EMBEDDING_PROVIDER", "nobody"),
        ("HANSEI_SEARCH_OWN_IP", "search-0"),
        ("HANSEI_SEARCH_RELEASE_SECONDS", "0"),
    ],
)
def test_a_bad_setting_is_named_and_stops_the_start(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # S-27, S-38, G-10
    monkeypatch.setenv(variable, value)
    with pytest.raises(chassis.BadSetting, match=variable):
        chassis.read_settings(SearchSettings)


def test_hansei_names_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_ALPHA", "0.1")
    monkeypatch.setenv("HANSEI_SEARCH_ALPHA", "0.9")
    assert chassis.read_settings(SearchSettings).search_alpha == 0.9


def test_the_bm25_that_goes_with_the_tokenizer() -> None:
    assert SearchSettings().bm25 is LUCENE
    assert SearchSettings(search_tokenizer="whitespace").bm25 is OKAPI
    assert SearchSettings(search_tokenizer="ja_bigram").bm25 is OKAPI
    assert SearchSettings(search_bm25="okapi").bm25 is OKAPI
