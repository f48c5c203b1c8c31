"""The best sentence: of a query's words, those that stand together in one sentence count more (ADR 211).

Each posting has a set of 32 bits: bit n says that the term occurs in sentence n of its entry, modulo 32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from services.search.domain.tokenizers import Tokenizer

REFINED_ROWS = 32
"""Rows whose sentences are compared: the best by both scores, at most a quarter of the candidates."""

_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


class EntryTerms(NamedTuple):
    """The terms of an entry and, for each, the number of its sentence."""

    terms: list[str]
    sentences: list[int]


def tokenize_entry(text: str, keywords: Iterable[str], tokenize: Tokenizer, split: bool = True) -> EntryTerms:
    """Return the terms of an entry: those of its text, then those of each keyword in order (S-18).

    The keywords are one more sentence. Without `split` the text is one: the specified tokenisers split at white space
    only, and would find other terms in parts of a text.
    """
    entry = EntryTerms([], [])
    sentences = _END_OF_SENTENCE.split(text) if split else [text]
    for number, sentence in enumerate(sentences):
        _extend(entry, tokenize(sentence), number)
    for keyword in keywords:
        _extend(entry, tokenize(keyword), len(sentences))
    return entry


def _extend(entry: EntryTerms, terms: list[str], sentence: int) -> None:
    entry.terms.extend(terms)
    entry.sentences.extend([sentence] * len(terms))


def choose_refined_count(count: int, candidates: int) -> int:
    """Return how many rows to rank so that the `count` best can be chosen by their sentences."""
    return max(count, min(REFINED_ROWS, candidates // 4))
