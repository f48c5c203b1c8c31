"""Cuts a text into chunks of whole sentences; each chunk begins with the end of the one before.

Sizes are counted in terms of the tokeniser. Chunks end, in this order of preference, at the end of a paragraph or of
a sentence, English or Japanese. A sentence longer than a chunk is cut between words, or anywhere if it has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from services.search.domain.collection_errors import ChunkOverlapTooLarge

DEFAULT_TOKENS = 200
DEFAULT_OVERLAP_SHARE = 6
CHARACTERS_A_TOKEN = 16
"""Characters of a chunk for each of its terms, at most: a text without word borders is not one term."""

_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")
_SENTENCE_END = re.compile(r"[.!?]+[\"'”’)\]]*\s+|[。！？]+[」』）”’]*\s*|\n+\s*")
_WORD_END = re.compile(r"\s+|[、，;:,；：]\s*")

CountTerms = Callable[[str], int]


class TextSpan(NamedTuple):
    """`text[start:end]`, in code points."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Chunking:
    """The size of chunks: at most `tokens` terms, of which at most `overlap` are also in the chunk before.

    Raises `ChunkOverlapTooLarge` for more than half.
    """

    tokens: int = DEFAULT_TOKENS
    overlap: int = DEFAULT_TOKENS // DEFAULT_OVERLAP_SHARE

    def __post_init__(self) -> None:
        if self.overlap > self.tokens // 2:
            raise ChunkOverlapTooLarge(self.overlap, self.tokens)

    @property
    def characters(self) -> int:
        """Return the most characters of a chunk."""
        return self.tokens * CHARACTERS_A_TOKEN


class _Piece(NamedTuple):
    """A sentence, or a part of one that is longer than a chunk."""

    start: int
    end: int
    tokens: int
    ends_paragraph: bool


def split_into_chunks(text: str, count: CountTerms, chunking: Chunking) -> list[TextSpan]:
    """Return the spans of a text's chunks, in order, without surrounding blanks; none for a blank text.

    Together they contain every character that is not blank. `count` returns the number of terms of a text.
    """
    pieces = list(_split_into_pieces(text, count, chunking))
    spans: list[TextSpan] = []
    first = last = 0
    while first < len(pieces):
        last = _find_chunk_end(pieces, first, last, chunking)
        spans.append(_trim(text, pieces[first].start, pieces[last - 1].end))
        if last == len(pieces):
            break
        first = _find_next_start(pieces, first, last, chunking)
    return spans


def _find_chunk_end(pieces: Sequence[_Piece], first: int, new: int, chunking: Chunking) -> int:
    """Return the end, exclusive, of the chunk that begins with piece `first`; pieces before `new` are overlap.

    A chunk that is at least half full ends with its paragraph, unless the paragraph is all overlap.
    """
    tokens, paragraph = 0, 0
    for number in range(first, len(pieces)):
        piece = pieces[number]
        tokens += piece.tokens
        if number > first and (tokens > chunking.tokens or piece.end - pieces[first].start > chunking.characters):
            return paragraph or number
        if piece.ends_paragraph and number >= new and 2 * tokens >= chunking.tokens:
            paragraph = number + 1
    return len(pieces)


def _find_next_start(pieces: Sequence[_Piece], first: int, last: int, chunking: Chunking) -> int:
    """Return the first piece of the next chunk: as early as the overlap allows so that the piece `last` still fits."""
    next_piece = pieces[last]
    tokens, start = 0, last
    while start - 1 > first:
        earlier = pieces[start - 1]
        tokens += earlier.tokens
        too_long = next_piece.end - earlier.start > chunking.characters
        if tokens > chunking.overlap or tokens + next_piece.tokens > chunking.tokens or too_long:
            break
        start -= 1
    return start


def _split_into_pieces(text: str, count: CountTerms, chunking: Chunking) -> Iterator[_Piece]:
    for paragraph in _split(text, TextSpan(0, len(text)), _PARAGRAPH_END):
        sentences = [part for part in _split(text, paragraph, _SENTENCE_END) if not text[slice(*part)].isspace()]
        for number, sentence in enumerate(sentences, 1):
            ends_paragraph = number == len(sentences)
            tokens = count(text[slice(*sentence)])
            if tokens <= chunking.tokens and sentence.end - sentence.start <= chunking.characters:
                yield _Piece(*sentence, tokens, ends_paragraph)
            else:
                yield from _split_long_sentence(text, sentence, tokens, count, chunking, ends_paragraph)


def _split_long_sentence(
    text: str, sentence: TextSpan, tokens: int, count: CountTerms, chunking: Chunking, ends_paragraph: bool
) -> Iterator[_Piece]:
    """Yield pieces of about the size of the overlap, so that chunks of the sentence can overlap, too."""
    wanted = max(1, chunking.overlap or chunking.tokens // 2)
    length = sentence.end - sentence.start
    width = max(1, min(length * wanted // max(tokens, 1), wanted * CHARACTERS_A_TOKEN))
    start = sentence.start
    while start < sentence.end:
        end = _find_word_border(text, start, min(start + width, sentence.end), sentence.end)
        counted = count(text[start:end])
        while counted > chunking.tokens and end - start > 1:
            end = start + (end - start) // 2
            counted = count(text[start:end])
        if not text[start:end].isspace():
            yield _Piece(start, end, counted, ends_paragraph and end == sentence.end)
        start = end


def _find_word_border(text: str, start: int, end: int, limit: int) -> int:
    """Return the last border between words in the second half of `text[start:end]`; `end` if there is none."""
    if end == limit:
        return end
    borders = [found.end() for found in _WORD_END.finditer(text, start + (end - start) // 2, end)]
    return borders[-1] if borders else end


def _split(text: str, within: TextSpan, border: re.Pattern[str]) -> Iterator[TextSpan]:
    start = within.start
    for found in border.finditer(text, within.start, within.end):
        yield TextSpan(start, found.end())
        start = found.end()
    if start < within.end:
        yield TextSpan(start, within.end)


def _trim(text: str, start: int, end: int) -> TextSpan:
    part = text[start:end]
    return TextSpan(start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip()))
