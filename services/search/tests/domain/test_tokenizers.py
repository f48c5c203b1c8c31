from __future__ import annotations

from importlib.util import find_spec

import pytest
import Stemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.embedding.terms import tokenize_mixed
from services.search.domain import tokenizers
from services.search.domain.errors import UnknownTokenizer
from services.search.domain.tokenizers import (
    cache_query_terms,
    compute_latin_share,
    get_tokenizer,
    tokenize_ja_bigram,
    tokenize_sudachi,
    tokenize_whitespace,
)


def test_terms_of_short_queries_are_cached() -> None:
    tokenized: list[str] = []

    def tokenize(text: str) -> list[str]:
        tokenized.append(text)
        return text.split()

    of_query, long = cache_query_terms(tokenize), "word " * 101
    assert [list(of_query(text)) for text in ("a b", "a b", long, long)] == [["a", "b"]] * 2 + [["word"] * 101] * 2
    assert tokenized == ["a b", long, long]


def test_whitespace_changes_nothing() -> None:  # S-18
    assert tokenize_whitespace(" Alpha\tＢＥＴＡ,\n東京都の天気 ") == ["Alpha", "ＢＥＴＡ,", "東京都の天気"]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("東京都の天気 Python3入門", "東京 京都 都の の天 天気 Python3 入門"),
        ("木 a木b 々", "木 a 木 b 々"),
        ("Hello, World", "Hello, World"),
        ("", ""),
    ],
)
def test_ja_bigram_splits_japanese_into_bigrams(text: str, terms: str) -> None:  # S-28
    assert terms.split() == tokenize_ja_bigram(text)


@given(st.text())
@settings(max_examples=200)
def test_ja_bigram_keeps_text_without_japanese(text: str) -> None:
    if not any("\u3040" <= c <= "\u9fff" or c in "々〆" or "\uf900" <= c <= "\ufaff" for c in text):
        assert text.split() == tokenize_ja_bigram(text)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Running the Runner's TESTS, don’t 'quote'", "run runner test dont quot"),
        ("ＡＰＩキー", "api キー"),
        ("ﾃﾞｰﾀを読む", "読 デー ータ タを を読 読む"),
        ("the of", ""),
        ("東京APIの設計 API", "api api 東 京 東京 設 計 の設 設計"),
        ("東京都の天気", "東 京 都 天 気 東京 京都 都の の天 天気"),
        ("これは", "これは"),
        ("snake_case-word", "snake case word"),
        ("日々 〆切", "日 々 日々 〆 切 〆切"),
        ("naïve café über Ǆ", "naiv cafe uber dz"),
        ("서울 날씨", "서울 날씨"),
        ("", ""),
        ("!?、。", ""),
    ],
)
def test_mixed_text_is_tokenized_by_script(text: str, terms: str) -> None:
    assert terms.split() == tokenize_mixed(text)


@given(st.text())
@settings(max_examples=200)
def test_tokenizers_give_terms_without_blanks_and_never_fail(text: str) -> None:
    for tokenize in (tokenize_whitespace, tokenize_ja_bigram, tokenize_mixed):
        assert all(term and not term.isspace() for term in tokenize(text))


@pytest.mark.skipif(find_spec("sudachipy") is None, reason="hansei[sudachi] is not installed")
def test_sudachi_splits_words() -> None:
    assert tokenize_sudachi("サーバーを再起動しました。The servers restarted") == [
        "server",
        "restart",
        "サーバー",
        "再",
        "起動",
        "為る",
    ]
    assert tokenize_sudachi("打ち込んだ") == tokenize_sudachi("打込んだ")
    assert tokenize_sudachi("を") == ["を"]
    assert len(tokenize_sudachi("東京" * 20_000)) == 20_000


def test_a_tokenizer_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: None)
    with pytest.raises(UnknownTokenizer, match=r"needs hansei\[sudachi\]"):
        get_tokenizer("sudachi")


def test_an_unknown_tokenizer_is_refused() -> None:  # S-27
    with pytest.raises(UnknownTokenizer, match="'mecab': choose one of ja_bigram, mixed, sudachi, whitespace"):
        get_tokenizer("mecab")


@pytest.mark.parametrize(
    ("text", "share"),
    [("abc", 1.0), ("東京", 0.0), ("ab東京", 0.5), ("123 !?", 1.0), ("", 1.0), ("Ａｂ", 1.0), ("가a", 0.5)],
)
def test_the_latin_share_of_a_text_is_computed(text: str, share: float) -> None:
    assert share == compute_latin_share(text)


@given(st.from_regex(r"[a-z0-9]{0,12}[0-9]", fullmatch=True))
def test_a_word_that_ends_in_a_digit_is_its_own_stem(word: str) -> None:
    assert tokenize_mixed(word) == [Stemmer.Stemmer("english").stemWord(word)] == [word]
