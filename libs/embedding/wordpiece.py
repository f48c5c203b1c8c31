"""The WordPiece tokeniser of uncased BERT models: words, cut into the longest pieces of the vocabulary.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2019, and Wu et al., 2016 for the pieces.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

_LONGEST_WORD = 100
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Encodes a text as token ids between those of [CLS] and [SEP]. `vocabulary` lists the pieces in order."""

    def __init__(self, vocabulary: Sequence[str], longest: int) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._first, self._last = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self._unknown = self._numbers["[UNK]"]
        self._longest = longest
        self._cached_pieces: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, at most `longest`; the rest of the text is left out."""
        limit = self._longest - 2
        pieces: list[int] = []
        # Each word has at least one piece, so the rest of the text need not be read.
        for word in _split_words(text):
            pieces.extend(self._find_pieces(word))
            if len(pieces) >= limit:
                break
        return [self._first, *pieces[:limit], self._last]

    def _find_pieces(self, word: str) -> tuple[int, ...]:
        pieces = self._cached_pieces.get(word)
        if pieces is None:
            pieces = self._match_longest_pieces(word)
            if len(self._cached_pieces) < 100_000:
                self._cached_pieces[word] = pieces
        return pieces

    def _match_longest_pieces(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST_WORD:
            return (self._unknown,)
        pieces: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(pieces)


def _split_words(text: str) -> Iterator[str]:
    """Yield lower-case words without accents; each punctuation mark and each ideograph is one word."""
    for chunk in text.split():
        plain = "".join(c for c in unicodedata.normalize("NFD", chunk.lower()) if unicodedata.category(c) != "Mn")
        word: list[str] = []
        for char in plain:
            if _is_ignored(char):
                continue
            if _is_single_token(char):
                if word:
                    yield "".join(word)
                    word = []
                yield char
            else:
                word.append(char)
        if word:
            yield "".join(word)


def _is_ignored(char: str) -> bool:
    return char in "\x00\ufffd" or unicodedata.category(char).startswith("C")


def _is_single_token(char: str) -> bool:
    code = ord(char)
    if code < 128:
        return not char.isalnum()
    return unicodedata.category(char).startswith("P") or any(low <= code <= high for low, high in _IDEOGRAPHS)
