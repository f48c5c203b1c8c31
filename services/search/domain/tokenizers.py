"""Tokenisers: from text to the terms of BM25.

Chosen by name: `whitespace` (the reference, S-18), `ja_bigram` (S-28), and `mixed`, the service's default, which treats
each script as it is written: Latin words are stemmed, unsegmented Japanese becomes single kanji and character pairs.
`sudachi` is `mixed` with a dictionary of Japanese words. The service's README compares their quality.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from libs.embedding.terms import pair_characters, split_scripts, tokenize_mixed
from services.search.domain.errors import UnknownTokenizer

Tokenizer = Callable[[str], list[str]]

QueryTokenizer = Callable[[str], Sequence[str]]
"""A tokeniser of queries, whose result is immutable."""

_KANA_OR_KANJI = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff々〆"
_RUNS = re.compile(f"[{_KANA_OR_KANJI}]+|[^{_KANA_OR_KANJI}]+")

CACHED_QUERIES, LONGEST_QUERY = 2048, 500

# Particles, auxiliary verbs, symbols, blanks.
_GRAMMAR = frozenset({"助詞", "助動詞", "補助記号", "空白"})
# SudachiPy takes at most 49,149 bytes, three of which most characters have.
_SUDACHI_AT_ONCE = 12_000

# The dictionary keeps state between calls, so each thread has its own.
_threads = threading.local()


def tokenize_whitespace(text: str) -> list[str]:
    """Return the terms of `str.split`: no folding, no normalisation (S-18)."""
    return text.split()


def tokenize_ja_bigram(text: str) -> list[str]:
    """Return whitespace terms, with runs of kana and kanji as overlapping character pairs (S-28)."""
    terms: list[str] = []
    for word in text.split():
        for run in _RUNS.findall(word):
            if len(run) >= 2 and _RUNS_JAPANESE.match(run):
                terms.extend(pair_characters(run))
            else:
                terms.append(run)
    return terms


_RUNS_JAPANESE = re.compile(f"[{_KANA_OR_KANJI}]")


def tokenize_sudachi(text: str) -> list[str]:
    """Return the terms of `mixed`, but Japanese as SudachiPy's shortest words in their normal form, without particles.

    Needs `hansei[sudachi]` (Takaoka et al., "Sudachi: a Japanese Tokenizer for Business", LREC 2018).
    """
    return split_scripts(text, _split_japanese)


def _split_japanese(run: str) -> list[str]:
    words = [
        word.normalized_form()
        for start in range(0, len(run), _SUDACHI_AT_ONCE)
        for word in _get_dictionary().tokenize(run[start : start + _SUDACHI_AT_ONCE])
        if word.part_of_speech()[0] not in _GRAMMAR
    ]
    return words or [run]


def _get_dictionary() -> Any:
    """Return SudachiPy's tokeniser of this thread."""
    if not hasattr(_threads, "japanese"):
        from sudachipy import Dictionary, SplitMode

        _threads.japanese = Dictionary(dict="core").tokenizer(mode=SplitMode.A)
    return _threads.japanese


TOKENIZERS: dict[str, Tokenizer] = {
    "whitespace": tokenize_whitespace,
    "ja_bigram": tokenize_ja_bigram,
    "mixed": tokenize_mixed,
    "sudachi": tokenize_sudachi,
}


def get_tokenizer(name: str) -> Tokenizer:
    """Return the tokeniser of that name. Raises `UnknownTokenizer` (S-27), also for one that is not installed."""
    if name == "sudachi" and find_spec("sudachipy") is None:
        raise UnknownTokenizer("sudachi (it needs hansei[sudachi])", sorted(TOKENIZERS.keys() - {name}))
    try:
        return TOKENIZERS[name]
    except KeyError:
        raise UnknownTokenizer(name, sorted(TOKENIZERS)) from None


def cache_query_terms(tokenize: Tokenizer) -> QueryTokenizer:
    """Return the tokeniser with a cache of the terms of queries."""

    @lru_cache(maxsize=CACHED_QUERIES)
    def tokenize_cached(text: str) -> Sequence[str]:
        return tuple(tokenize(text))

    return lambda text: tokenize_cached(text) if len(text) <= LONGEST_QUERY else tokenize(text)


def compute_latin_share(text: str) -> float:
    """Return the share of Latin letters among the text's letters, in 0..1; 1 for text without letters."""
    if text.isascii():
        return 1.0
    letters = [char for char in text if char.isalpha()]
    if not letters:
        return 1.0
    return sum(char < "\u0250" or "\uff21" <= char <= "\uff5a" for char in letters) / len(letters)
