"""The vectors of new texts are made before the commit, so that what is committed can be searched at once (ADR 041)."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from chassis.errors import HanseiError
from services.curator.domain.errors import SimilarityUnavailable
from services.curator.domain.playbook import estimated_tokens
from services.curator.usecases.ports import Ticket
from services.curator.usecases.vectors import Vectors

TOKENS_AT_ONCE = 500
"""Tokens that are embedded ahead at one time, which takes `minilm` a third of a second: a long batch does not wait, nor
do many writers for each other."""
TOKENS_OF_A_TEXT = (30, 250)
"""How many a text counts for: the least, and the most, since what is longer is hardly read to its end."""
DEADLINE_SHARE = 4
"""A caller waits only if its deadline leaves this many times as long as it may have to."""
REST_SECONDS = 5.0
"""How long a search service that failed is not asked again."""
QUICK = "hashing"
"""How the names of embedders begin that take less time than a call to the service."""
QUICK_REST_SECONDS = 60.0
"""How long a search service with such an embedder is not asked again; it may have another one then."""

MADE, FAILED, PASSED_OVER = "made", "failed", "passed over"

_log = logging.getLogger(__name__)


class Answered(Protocol):
    """Knows the requests that are done (see `PlaybookStore`)."""

    async def answer(self, ticket: Ticket) -> bytes | None:
        """The stored answer of a request that is done. RequestIdReused when it had another payload."""
        ...


class EmbedAhead:
    """Has the search service embed what is about to be committed; its index then finds the vectors made.

    Nothing depends on it: texts that are not embedded here, for whatever reason, the index embeds after the commit.
    `seconds` is the longest a write waits, 0 for not at all; `remaining` says how many the caller has left, None for
    any number; `count` is told for each write with texts that were not embedded yet what became of that.
    """

    def __init__(
        self,
        vectors: Vectors,
        answered: Answered,
        seconds: float,
        *,
        remaining: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        count: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        self._vectors = vectors
        self._answered = answered
        self._seconds = seconds
        self._remaining = remaining
        self._clock = clock
        self._count = count
        self._under_way = 0
        self._resting_until = -math.inf
        self._failing = False

    async def __call__(self, texts: Iterable[str], ticket: Ticket | None = None) -> None:
        """Returns when the vectors of `texts` are made, or will not be here; none are for a ticket that is done."""
        if not self._seconds:
            return
        unknown = self._vectors.unknown(texts, TOKENS_AT_ONCE // TOKENS_OF_A_TEXT[0] + 1)
        if not unknown:
            return
        tokens = sum(map(_tokens, unknown))
        if not self._may_ask(tokens):
            self._count(PASSED_OVER)
            return
        self._under_way += tokens
        try:
            if ticket is None or await self._is_new(ticket):
                await self._embed(unknown)
        finally:
            self._under_way -= tokens

    def _may_ask(self, tokens: int) -> bool:
        left = self._remaining()
        return (
            self._under_way + tokens <= TOKENS_AT_ONCE
            and (left is None or left >= DEADLINE_SHARE * self._seconds)
            and self._clock() >= self._resting_until
        )

    async def _is_new(self, ticket: Ticket) -> bool:
        try:
            return await self._answered.answer(ticket) is None
        except HanseiError:
            # Whatever it is, the commit says it in a moment.
            return False

    async def _embed(self, texts: Sequence[str]) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                model, _ = await self._vectors.of(texts)
        except Exception as error:
            # The index asks for the same vectors, and tells its readers why there are none.
            if not self._failing:
                _log.info("new texts are embedded after their commit for now: %s", self._cause(error))
            self._failing, self._resting_until = True, self._clock() + REST_SECONDS
            self._count(FAILED)
        else:
            self._failing = False
            if model.startswith(QUICK):
                self._resting_until = self._clock() + QUICK_REST_SECONDS
            self._count(MADE)

    def _cause(self, error: Exception) -> str:
        if isinstance(error, SimilarityUnavailable):
            return error.cause
        return f"no answer within {self._seconds:g} s" if isinstance(error, TimeoutError) else str(error)


def _tokens(text: str) -> int:
    least, most = TOKENS_OF_A_TEXT
    return min(max(least, estimated_tokens(text)), most)
