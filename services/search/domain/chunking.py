"""How a text is cut into chunks: whole sentences as long as they fit, each chunk beginning with the end of the last.

Sizes are counted in terms of the tokeniser. Borders are looked for in this order: the end of a paragraph, the end of a
sentence, English or Japanese; a sentence longer than a chunk is cut between words, or anywhere if it has none.
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
"""What a term has at most, when it comes to the length of a chunk: a text without borders is no single term."""

_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")
_SENTENCE_END = re.compile(r"[.!?]+[\"'”’)\]]*\s+|[。！？]+[」』）”’]*\s*|\n+\s*")
_WORD_END = re.compile(r"\s+|[、，;:,；：]\s*")

CountTerms = Callable[[str], int]


class Span(NamedTuple):
    """`text[start:end]`, in code points."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Chunking:
    """At most `tokens` terms a chunk; at most `overlap` of them stand in the chunk before as well.

    Raises `ChunkOverlapTooLarge` for more than half.
    """

    tokens: int = DEFAULT_TOKENS
    overlap: int = DEFAULT_TOKENS // DEFAULT_OVERLAP_SHARE

    def __post_init__(self) -> None:
        if self.overlap > self.tokens // 2:
            raise ChunkOverlapTooLarge(self.overlap, self.tokens)

    @property
    def characters(self) -> int:
        """How long a chunk may be, whatever its terms are."""
        return self.tokens * CHARACTERS_A_TOKEN


class _Piece(NamedTuple):
    """What chunks are made of: a sentence, or a part of one that was too long."""

    start: int
    end: int
    tokens: int
    ends_paragraph: bool


def chunks_of(text: str, count: CountTerms, chunking: Chunking) -> list[Span]:
    """Where the chunks of a text begin and end, in order, without blank space around them; none for a blank text.

    Together they hold every character that is not blank. `count` tells how many terms a text has.
    """
    pieces = list(_pieces(text, count, chunking))
    spans: list[Span] = []
    first = last = 0
    while first < len(pieces):
        last = _last_of_chunk(pieces, first, last, chunking)
        spans.append(_trimmed(text, pieces[first].start, pieces[last - 1].end))
        if last == len(pieces):
            break
        first = _first_of_next(pieces, first, last, chunking)
    return spans


def _last_of_chunk(pieces: Sequence[_Piece], first: int, new: int, chunking: Chunking) -> int:
    """One past the last piece of the chunk that begins with `first`; pieces before `new` stand in the one before, too.

    A chunk that is half full already ends with its paragraph, unless all of that stands in the one before.
    """
    tokens, paragraph = 0, 0
    for place in range(first, len(pieces)):
        piece = pieces[place]
        tokens += piece.tokens
        if place > first and (tokens > chunking.tokens or piece.end - pieces[first].start > chunking.characters):
            return paragraph or place
        if piece.ends_paragraph and place >= new and 2 * tokens >= chunking.tokens:
            paragraph = place + 1
    return len(pieces)


def _first_of_next(pieces: Sequence[_Piece], first: int, last: int, chunking: Chunking) -> int:
    """The first piece of the next chunk: as far back as the overlap allows, so that the piece at `last` still fits."""
    following = pieces[last]
    tokens, start = 0, last
    while start - 1 > first:
        earlier = pieces[start - 1]
        tokens += earlier.tokens
        too_long = following.end - earlier.start > chunking.characters
        if tokens > chunking.overlap or tokens + following.tokens > chunking.tokens or too_long:
            break
        start -= 1
    return start


def _pieces(text: str, count: CountTerms, chunking: Chunking) -> Iterator[_Piece]:
    for paragraph in _cut(text, Span(0, len(text)), _PARAGRAPH_END):
        sentences = [part for part in _cut(text, paragraph, _SENTENCE_END) if not text[slice(*part)].isspace()]
        for place, sentence in enumerate(sentences, 1):
            ends_paragraph = place == len(sentences)
            tokens = count(text[slice(*sentence)])
            if tokens <= chunking.tokens and sentence.end - sentence.start <= chunking.characters:
                yield _Piece(*sentence, tokens, ends_paragraph)
            else:
                yield from _pieces_of_long(text, sentence, tokens, count, chunking, ends_paragraph)


def _pieces_of_long(
    text: str, sentence: Span, tokens: int, count: CountTerms, chunking: Chunking, ends_paragraph: bool
) -> Iterator[_Piece]:
    """A sentence too long for a chunk, in pieces of about the overlap, so that it can be overlapped too."""
    wanted = max(1, chunking.overlap or chunking.tokens // 2)
    length = sentence.end - sentence.start
    width = max(1, min(length * wanted // max(tokens, 1), wanted * CHARACTERS_A_TOKEN))
    start = sentence.start
    while start < sentence.end:
        end = _word_border(text, start, min(start + width, sentence.end), sentence.end)
        counted = count(text[start:end])
        while counted > chunking.tokens and end - start > 1:
            end = start + (end - start) // 2
            counted = count(text[start:end])
        if not text[start:end].isspace():
            yield _Piece(start, end, counted, ends_paragraph and end == sentence.end)
        start = end


def _word_border(text: str, start: int, end: int, limit: int) -> int:
    """The last border between words in the second half of `text[start:end]`; `end` if there is none."""
    if end == limit:
        return end
    borders = [found.end() for found in _WORD_END.finditer(text, start + (end - start) // 2, end)]
    return borders[-1] if borders else end


def _cut(text: str, within: Span, border: re.Pattern[str]) -> Iterator[Span]:
    start = within.start
    for found in border.finditer(text, within.start, within.end):
        yield Span(start, found.end())
        start = found.end()
    if start < within.end:
        yield Span(start, within.end)


def _trimmed(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return Span(start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip()))
