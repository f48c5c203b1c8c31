"""The terms of mixed English and Japanese text, for the hashing model and the default tokeniser of search."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable

import Stemmer

Tokenizer = Callable[[str], list[str]]

# Words of scripts that separate them, or runs of scripts that do not. The prolonged sound mark, the iteration marks and
# the rare ideographs of the supplementary planes belong to the Japanese runs; the middle dot separates words.
_JAPANESE = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff々〆\U00020000-\U0003ffff"
_RUNS_AND_WORDS = re.compile(f"([{_JAPANESE}]+)|([^\\W_{_JAPANESE}]+)")
_HIRAGANA_PAIR = re.compile("[\u3041-\u309f]{2}")
_KANJI = re.compile("[\u3400-\u9fff\uf900-\ufaff々〆\U00020000-\U0003ffff]")

# "don't" and "runner's" become one word; quoted words stay.
_APOSTROPHE = re.compile("(?<=[a-z])['’](?:s\\b|(?=[a-z]))")
_PLAIN_LETTERS = {
    code: base[0]
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if len(base := unicodedata.normalize("NFD", chr(code))) > 1
}

# English words without a meaning of their own. Leaving them out raises nDCG@10 of questions by .006 (README).
_STOP_WORDS = """
a an and are as at be but by did do does for from had has have he her his how if in into is it its no not of on or she
such that the their then there these they this to was were what when where which who whom whose why will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_ASCII_WORDS = re.compile("[a-z0-9]+")

CACHED_STEMS, LONGEST_CACHED = 50_000, 64

# A stemmer keeps state between calls, so each thread has its own.
_stemmers = threading.local()


def tokenize_mixed(text: str) -> list[str]:
    """Return the terms of English and Japanese text: stemmed words, kanji, character pairs not wholly hiragana.

    Text is NFKC-normalised and lower-cased first, so full-width letters and half-width katakana get their usual forms;
    Latin letters lose their accents, and stop words are left out. Pairs of hiragana are mostly grammar and are left
    out too; a run without any term is one term. Words come first, then Japanese terms.
    """
    return split_scripts(text, _tokenize_japanese)


def split_scripts(text: str, tokenize_japanese: Tokenizer) -> list[str]:
    """Return the stems of the words, then the terms of `tokenize_japanese` for each Japanese run."""
    if text.isascii():
        # Most text is, and then has neither accents nor Japanese.
        plain = text.lower()
        return _stem_words(_ASCII_WORDS.findall(_APOSTROPHE.sub("", plain) if "'" in plain else plain))
    words: list[str] = []
    japanese: list[str] = []
    plain = _APOSTROPHE.sub("", unicodedata.normalize("NFKC", text).lower().translate(_PLAIN_LETTERS))
    for run, word in _RUNS_AND_WORDS.findall(plain):
        if run:
            japanese.extend(tokenize_japanese(run))
        else:
            words.append(word)
    return _stem_words(words) + japanese


def _tokenize_japanese(characters: str) -> list[str]:
    """Return each kanji, and each pair of neighbours that is not hiragana alone: such pairs are mostly grammar."""
    terms = _KANJI.findall(characters)
    terms.extend(pair for pair in pair_characters(characters) if not _HIRAGANA_PAIR.match(pair))
    return terms or [characters]


def pair_characters(run: str) -> Iterable[str]:
    """Yield each character with its right neighbour."""
    return (run[i : i + 2] for i in range(len(run) - 1))


def _stem_words(words: list[str]) -> list[str]:
    """Return the stems of the words that are not stop words."""
    return [_stems[word] for word in words if word not in STOP_WORDS]


class _Stems(dict[str, str]):
    """A cache of stems by word. A plain dictionary, because each word of each text is looked up."""

    def __missing__(self, word: str) -> str:
        if word[-1].isdigit():
            return word  # numbers have no English ending and would fill the cache
        try:
            stemmer = _stemmers.english
        except AttributeError:
            stemmer = _stemmers.english = Stemmer.Stemmer("english", 0)
        stem: str = stemmer.stemWord(word)
        if len(self) >= CACHED_STEMS:
            self.clear()
        if len(word) <= LONGEST_CACHED:
            self[word] = stem
        return stem


_stems = _Stems()
