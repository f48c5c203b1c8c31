"""From text to the terms that BM25 counts.

Chosen by name: `whitespace` (the reference, S-18), `ja_bigram` (S-28), and `mixed`, the service's default, which treats
each script as it is written: Latin words are stemmed, unsegmented Japanese becomes single kanji and character pairs.
`sudachi` is `mixed` with a dictionary of Japanese words. What each finds is measured in the service's README.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from libs.embedding.terms import character_pairs, mixed, split_scripts
from services.search.domain.errors import UnknownTokenizer

Tokenizer = Callable[[str], list[str]]

QueryTokenizer = Callable[[str], Sequence[str]]
"""A tokeniser of queries: nobody changes what it gives."""

_KANA_OR_KANJI = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff々〆"
_RUNS = re.compile(f"[{_KANA_OR_KANJI}]+|[^{_KANA_OR_KANJI}]+")

REMEMBERED_QUERIES, LONGEST_QUERY = 2048, 500

# Particles, auxiliary verbs, symbols, blanks.
_GRAMMAR = frozenset({"助詞", "助動詞", "補助記号", "空白"})
# SudachiPy takes at most 49,149 bytes, three of which most characters have.
_SUDACHI_AT_ONCE = 12_000

# The dictionary keeps state between calls, so each thread has its own.
_threads = threading.local()


def whitespace(text: str) -> list[str]:
    """Terms as `str.split` gives them: no folding, no normalisation (S-18)."""
    return text.split()


def ja_bigram(text: str) -> list[str]:
    """Whitespace terms whose runs of kana and kanji become overlapping character pairs (S-28)."""
    terms: list[str] = []
    for word in text.split():
        for run in _RUNS.findall(word):
            if len(run) >= 2 and _RUNS_JAPANESE.match(run):
                terms.extend(character_pairs(run))
            else:
                terms.append(run)
    return terms


_RUNS_JAPANESE = re.compile(f"[{_KANA_OR_KANJI}]")


def sudachi(text: str) -> list[str]:
    """Terms as `mixed` gives them, but Japanese as SudachiPy's shortest words in their normal form, without particles.

    Needs `hansei[sudachi]` (Takaoka et al., "Sudachi: a Japanese Tokenizer for Business", LREC 2018).
    """
    return split_scripts(text, _japanese_words)


def _japanese_words(run: str) -> list[str]:
    words = []
    for start in range(0, len(run), _SUDACHI_AT_ONCE):
        for word in _dictionary().tokenize(run[start : start + _SUDACHI_AT_ONCE]):
            if word.part_of_speech()[0] not in _GRAMMAR:
                words.append(word.normalized_form())
    return words or [run]


def _dictionary() -> Any:
    """SudachiPy's tokeniser of this thread: it keeps state between calls."""
    if not hasattr(_threads, "japanese"):
        from sudachipy import Dictionary, SplitMode

        _threads.japanese = Dictionary(dict="core").tokenizer(mode=SplitMode.A)
    return _threads.japanese


TOKENIZERS: dict[str, Tokenizer] = {
    "whitespace": whitespace,
    "ja_bigram": ja_bigram,
    "mixed": mixed,
    "sudachi": sudachi,
}


def tokenizer(name: str) -> Tokenizer:
    """The tokeniser of that name. Raises `UnknownTokenizer` (S-27), also for one that is not installed."""
    if name == "sudachi" and find_spec("sudachipy") is None:
        raise UnknownTokenizer("sudachi (it needs hansei[sudachi])", sorted(TOKENIZERS.keys() - {name}))
    try:
        return TOKENIZERS[name]
    except KeyError:
        raise UnknownTokenizer(name, sorted(TOKENIZERS)) from None


def remembering(tokenize: Tokenizer) -> QueryTokenizer:
    """The same for queries: the terms of those that come again are remembered, as their vectors are."""

    @lru_cache(maxsize=REMEMBERED_QUERIES)
    def remembered(text: str) -> Sequence[str]:
        return tuple(tokenize(text))

    return lambda text: remembered(text) if len(text) <= LONGEST_QUERY else tokenize(text)


def terms_of(text: str, keywords: Iterable[str], tokenize: Tokenizer) -> list[str]:
    """Terms of an entry: those of its text, then those of each keyword in order (S-18)."""
    terms = tokenize(text)
    for keyword in keywords:
        terms.extend(tokenize(keyword))
    return terms


def latin_share(text: str) -> float:
    """Share of the text's letters that are Latin, in 0..1; 1 for text without letters.

    An embedder that knows only English says nothing about a Japanese query; its weight is scaled by this share.
    """
    if text.isascii():
        return 1.0
    letters = [char for char in text if char.isalpha()]
    if not letters:
        return 1.0
    return sum(char < "\u0250" or "\uff21" <= char <= "\uff5a" for char in letters) / len(letters)
