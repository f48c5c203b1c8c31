"""Japanese morphology by SudachiPy, and the choice between it and plain substrings."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from services.validator.domain.japanese import Morpheme
from services.validator.domain.japanese_wording import (
    ADVISOR_RULES,
    ORGANIZER_RULES,
    LinguisticPhrases,
    LinguisticRules,
)
from services.validator.domain.kinds import ADVISOR, ORGANIZER, ReportKind, Wording
from services.validator.domain.wording import LiteralPhrases, PhraseFinder

CHUNK_CHARS = 8_000
"""Sudachi takes at most 49,149 bytes at once."""

_RULES = {ORGANIZER.name: ORGANIZER_RULES, ADVISOR.name: ADVISOR_RULES}


class SudachiTokenizer:
    """Cuts text into the longest words of the core dictionary (split mode C). Safe to use from several threads."""

    def __init__(self) -> None:
        from sudachipy import Dictionary

        self._dictionary = Dictionary(dict="core")
        self._local = threading.local()

    def __call__(self, text: str) -> list[Morpheme]:
        """The morphemes of a text of any length."""
        tokenizer = self._tokenizer()
        return [
            Morpheme(word.surface(), word.normalized_form(), word.part_of_speech()[0], word.part_of_speech()[5])
            for chunk in _chunks(text)
            for word in tokenizer.tokenize(chunk)
        ]

    def _tokenizer(self) -> Any:
        # A tokenizer may not be used by two threads at once.
        if not hasattr(self._local, "tokenizer"):
            from sudachipy import SplitMode

            self._local.tokenizer = self._dictionary.tokenizer(mode=SplitMode.C)
        return self._local.tokenizer


def _chunks(text: str) -> Iterator[str]:
    while len(text) > CHUNK_CHARS:
        end = max(text.rfind(mark, 0, CHUNK_CHARS) for mark in "。\n、 ") + 1 or CHUNK_CHARS
        yield text[:end]
        text = text[end:]
    yield text


class JapaneseWords:
    """Finds the words of a kind literally or by morphology; the dictionary is loaded when it is first needed."""

    def __init__(self) -> None:
        self._loading = asyncio.Lock()
        self._tokenizer: SudachiTokenizer | None = None

    async def finder(self, kind: ReportKind, wording: Wording) -> PhraseFinder:
        """The finder of a kind's words in a wording mode."""
        if wording is Wording.LITERAL:
            return kind.phrases
        async with self._loading:
            if self._tokenizer is None:
                self._tokenizer = await asyncio.to_thread(SudachiTokenizer)
        return linguistic_finder(kind, self._tokenizer)


def linguistic_finder(kind: ReportKind, tokenizer: SudachiTokenizer) -> PhraseFinder:
    """The finder of a kind's words by morphology: grammar for the built-in kinds, whole words for others."""
    rules = _RULES.get(kind.name)
    if rules is not None:
        return LinguisticRules(tokenizer, rules)
    phrases: Sequence[str] = kind.phrases.phrases if isinstance(kind.phrases, LiteralPhrases) else ()
    return LinguisticPhrases(tokenizer, phrases)
