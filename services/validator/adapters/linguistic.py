"""Japanese morphology by SudachiPy, and the choice between it and plain substrings."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from chassis.json_texts import repair_surrogates
from services.validator.domain.japanese import Morpheme, Tokenize
from services.validator.domain.japanese_wording import (
    ADVISOR_RULES,
    ORGANIZER_RULES,
    LinguisticPhrases,
    LinguisticRules,
)
from services.validator.domain.wording import (
    ADVISOR_WORDS,
    LITERAL,
    ORGANIZER_PHRASES,
    PhraseFinder,
    PhraseFinders,
    Wording,
)

CHUNK_CHARS = 8_000
"""Sudachi takes at most 49,149 bytes at once."""

MAX_FINDERS = 1000

_RULES = {ORGANIZER_PHRASES: ORGANIZER_RULES, ADVISOR_WORDS: ADVISOR_RULES}


class SudachiTokenizer:
    """Splits text into the longest words of the core dictionary (split mode C). Safe to use from several threads."""

    def __init__(self) -> None:
        from sudachipy import Dictionary

        self._dictionary = Dictionary(dict="core")
        self._local = threading.local()

    def __call__(self, text: str) -> Iterator[Morpheme]:
        """Yield the morphemes of a text of any length."""
        tokenizer = self._load_tokenizer()
        for chunk in _split_chunks(repair_surrogates(text)):
            for word in tokenizer.tokenize(chunk):
                yield Morpheme(
                    word.surface(), word.normalized_form(), word.part_of_speech()[0], word.part_of_speech()[5]
                )

    def _load_tokenizer(self) -> Any:
        # A tokenizer may not be used by two threads at once.
        if not hasattr(self._local, "tokenizer"):
            from sudachipy import SplitMode

            self._local.tokenizer = self._dictionary.tokenizer(mode=SplitMode.C)
        return self._local.tokenizer


def _split_chunks(text: str) -> Iterator[str]:
    while len(text) > CHUNK_CHARS:
        end = max(text.rfind(mark, 0, CHUNK_CHARS) for mark in "。\n、 ") + 1 or CHUNK_CHARS
        yield text[:end]
        text = text[end:]
    yield text


class LinguisticFinders:
    """Finders by morphology: grammar rules for the phrases of the specification, whole words for others."""

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize
        self._finders: dict[tuple[str, ...], PhraseFinder] = {
            phrases: LinguisticRules(tokenize, rules) for phrases, rules in _RULES.items()
        }

    def get_finder(self, phrases: Sequence[str]) -> PhraseFinder:
        """Return the finder of these phrases."""
        key = tuple(phrases)
        if key not in self._finders:
            if len(self._finders) >= MAX_FINDERS:
                return LinguisticPhrases(self._tokenize, key)
            self._finders[key] = LinguisticPhrases(self._tokenize, key)
        return self._finders[key]


class JapaneseVocabulary:
    """Literal and linguistic words; the dictionary (0.2 s, 80 MB) is loaded when it is first needed."""

    def __init__(self) -> None:
        self._loading = asyncio.Lock()
        self._linguistic: LinguisticFinders | None = None

    async def list_words(self, wording: Wording) -> PhraseFinders:
        """Return the finders of a wording mode."""
        if wording is Wording.LITERAL:
            return LITERAL
        async with self._loading:
            if self._linguistic is None:
                self._linguistic = LinguisticFinders(await asyncio.to_thread(SudachiTokenizer))
        return self._linguistic
