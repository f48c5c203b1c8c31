"""From text to the terms that BM25 counts.

Three tokenisers, chosen by name: `whitespace` (the reference, S-18), `ja_bigram` (S-28) and `mixed`, the service's
default, which treats each script as it is written: Latin words are stemmed, unsegmented Japanese becomes single kanji
and character pairs. What each finds is measured in the service's README.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable

import Stemmer

from services.search.domain.errors import UnknownTokenizer

Tokenizer = Callable[[str], list[str]]

_KANA_OR_KANJI = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff々〆"
_RUNS = re.compile(f"[{_KANA_OR_KANJI}]+|[^{_KANA_OR_KANJI}]+")

# Words of scripts that separate them, or runs of scripts that do not. The prolonged sound mark, the iteration marks and
# the rare ideographs of the supplementary planes belong to the Japanese runs; the middle dot separates words.
_JAPANESE = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff々〆\U00020000-\U0003ffff"
_WORDS_OR_RUNS = re.compile(f"([{_JAPANESE}]+)|[^\\W_{_JAPANESE}]+")
_HIRAGANA_PAIR = re.compile("[\u3041-\u309f]{2}")
_KANJI = re.compile("[\u3400-\u9fff\uf900-\ufaff々〆\U00020000-\U0003ffff]")

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


def mixed(text: str) -> list[str]:
    """Terms of mixed English and Japanese text: stemmed lower-case words, single kanji, pairs not wholly hiragana.

    Text is NFKC-normalised first, so full-width letters and half-width katakana meet their usual forms. Pairs of
    hiragana are mostly grammar and are left out; a run that would give nothing at all stays as it is.
    """
    terms: list[str] = []
    stem = _stem_words
    words: list[str] = []
    for match in _WORDS_OR_RUNS.finditer(unicodedata.normalize("NFKC", text).lower()):
        run = match.group(1)
        if run is None:
            words.append(match.group())
        else:
            if words:
                terms.extend(stem(words))
                words = []
            terms.extend(_japanese_terms(run))
    if words:
        terms.extend(stem(words))
    return terms


def _japanese_terms(run: str) -> list[str]:
    terms = _KANJI.findall(run)
    terms.extend(pair for pair in _pairs(run) if not _HIRAGANA_PAIR.match(pair))
    return terms or [run]


def _pairs(run: str) -> Iterable[str]:
    return (run[i : i + 2] for i in range(len(run) - 1))


def _stem_words(words: list[str]) -> list[str]:
    try:
        stemmer = _stemmers.english
    except AttributeError:
        stemmer = _stemmers.english = Stemmer.Stemmer("english")
    stemmed: list[str] = stemmer.stemWords(words)
    return stemmed


TOKENIZERS: dict[str, Tokenizer] = {"whitespace": whitespace, "ja_bigram": ja_bigram, "mixed": mixed}


def tokenizer(name: str) -> Tokenizer:
    """The tokeniser of that name. Raises `UnknownTokenizer` (S-27)."""
    try:
        return TOKENIZERS[name]
    except KeyError:
        raise UnknownTokenizer(name, sorted(TOKENIZERS)) from None


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
    letters = [char for char in text if char.isalpha()]
    if not letters:
        return 1.0
    return sum(char < "\u0250" or "\uff21" <= char <= "\uff5a" for char in letters) / len(letters)
