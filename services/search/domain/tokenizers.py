"""From text to the terms that BM25 counts.

Chosen by name: `whitespace` (the reference, S-18), `ja_bigram` (S-28), and `mixed`, the service's default, which treats
each script as it is written: Latin words are stemmed, unsegmented Japanese becomes single kanji and character pairs.
`sudachi` is `mixed` with a dictionary of Japanese words. What each finds is measured in the service's README.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import Stemmer

from services.search.domain.errors import UnknownTokenizer

Tokenizer = Callable[[str], list[str]]

QueryTokenizer = Callable[[str], Sequence[str]]
"""A tokeniser of queries: nobody changes what it gives."""

_KANA_OR_KANJI = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff々〆"
_RUNS = re.compile(f"[{_KANA_OR_KANJI}]+|[^{_KANA_OR_KANJI}]+")

# Words of scripts that separate them, or runs of scripts that do not. The prolonged sound mark, the iteration marks and
# the rare ideographs of the supplementary planes belong to the Japanese runs; the middle dot separates words.
_JAPANESE = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff々〆\U00020000-\U0003ffff"
_RUNS_AND_WORDS = re.compile(f"([{_JAPANESE}]+)|([^\\W_{_JAPANESE}]+)")
_HIRAGANA_PAIR = re.compile("[\u3041-\u309f]{2}")
_KANJI = re.compile("[\u3400-\u9fff\uf900-\ufaff々〆\U00020000-\U0003ffff]")

# "don't" and "runner's" are written as one word; what is quoted is not touched.
_APOSTROPHE = re.compile("(?<=[a-z])['’](?:s\\b|(?=[a-z]))")
_PLAIN_LETTERS = {
    code: base[0]
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if len(base := unicodedata.normalize("NFD", chr(code))) > 1
}

# English words that say nothing of a subject. Leaving them out raises nDCG@10 of questions by .006 (README).
_STOP_WORDS = """
a an and are as at be but by did do does for from had has have he her his how if in into is it its no not of on or she
such that the their then there these they this to was were what when where which who whom whose why will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_ASCII_WORDS = re.compile("[a-z0-9]+")

REMEMBERED_STEMS, LONGEST_REMEMBERED = 50_000, 64
REMEMBERED_QUERIES, LONGEST_QUERY = 2048, 500

# Particles, auxiliary verbs, symbols, blanks.
_GRAMMAR = frozenset({"助詞", "助動詞", "補助記号", "空白"})
# SudachiPy takes at most 49,149 bytes, three of which most characters have.
_SUDACHI_AT_ONCE = 12_000

# A stemmer keeps state between calls, so each thread has its own.
_stemmers = threading.local()


def whitespace(text: str) -> list[str]:
    """Terms as `str.split` gives them: no folding, no normalisation (S-18)."""
    return text.split()


def ja_bigram(text: str) -> list[str]:
    """Whitespace terms whose runs of kana and kanji become overlapping character pairs (S-28)."""
    terms: list[str] = []
    for word in text.split():
        for run in _RUNS.findall(word):
            if len(run) >= 2 and _RUNS_JAPANESE.match(run):
                terms.extend(_pairs(run))
            else:
                terms.append(run)
    return terms


_RUNS_JAPANESE = re.compile(f"[{_KANA_OR_KANJI}]")


def sudachi(text: str) -> list[str]:
    """Terms as `mixed` gives them, but Japanese as SudachiPy's shortest words in their normal form, without particles.

    Needs `hansei[sudachi]` (Takaoka et al., "Sudachi: a Japanese Tokenizer for Business", LREC 2018).
    """
    return _terms(text, _japanese_words)


def mixed(text: str) -> list[str]:
    """Terms of mixed English and Japanese text: stemmed words, single kanji, character pairs not wholly hiragana.

    Text is NFKC-normalised and lower-cased first, so full-width letters and half-width katakana meet their usual forms;
    Latin letters lose their accents, and stop words are left out. Pairs of hiragana are mostly grammar and are left
    out too; a run that would give nothing at all stays as it is. Words come first, then what is Japanese.
    """
    return _terms(text, _japanese_terms)


def _terms(text: str, of_japanese: Tokenizer) -> list[str]:
    if text.isascii():
        # Most text is, and then has neither accents nor Japanese.
        plain = text.lower()
        return _stemmed(_ASCII_WORDS.findall(_APOSTROPHE.sub("", plain) if "'" in plain else plain))
    words: list[str] = []
    japanese: list[str] = []
    plain = _APOSTROPHE.sub("", unicodedata.normalize("NFKC", text).lower().translate(_PLAIN_LETTERS))
    for run, word in _RUNS_AND_WORDS.findall(plain):
        if run:
            japanese.extend(of_japanese(run))
        else:
            words.append(word)
    return _stemmed(words) + japanese


def _japanese_words(run: str) -> list[str]:
    words = []
    for start in range(0, len(run), _SUDACHI_AT_ONCE):
        for word in _dictionary().tokenize(run[start : start + _SUDACHI_AT_ONCE]):
            if word.part_of_speech()[0] not in _GRAMMAR:
                words.append(word.normalized_form())
    return words or [run]


def _dictionary() -> Any:
    """SudachiPy's tokeniser of this thread: it keeps state between calls."""
    if not hasattr(_stemmers, "japanese"):
        from sudachipy import Dictionary, SplitMode

        _stemmers.japanese = Dictionary(dict="core").tokenizer(mode=SplitMode.A)
    return _stemmers.japanese


def _japanese_terms(run: str) -> list[str]:
    terms = _KANJI.findall(run)
    terms.extend(pair for pair in _pairs(run) if not _HIRAGANA_PAIR.match(pair))
    return terms or [run]


def _pairs(run: str) -> Iterable[str]:
    return (run[i : i + 2] for i in range(len(run) - 1))


def _stemmed(words: list[str]) -> list[str]:
    """The stems of the words that are no stop words."""
    return [_stems[word] for word in words if word not in STOP_WORDS]


class _Stems(dict[str, str]):
    """Stems by word, of which some are remembered: the words of a language come again and again."""

    def __missing__(self, word: str) -> str:
        if word[-1].isdigit():
            return word  # no ending of English, and there is no end of numbers to remember
        try:
            stemmer = _stemmers.english
        except AttributeError:
            stemmer = _stemmers.english = Stemmer.Stemmer("english", 0)
        stem: str = stemmer.stemWord(word)
        if len(self) >= REMEMBERED_STEMS:
            self.clear()
        if len(word) <= LONGEST_REMEMBERED:
            self[word] = stem
        return stem


_stems = _Stems()


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
