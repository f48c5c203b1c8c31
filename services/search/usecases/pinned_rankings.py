"""Rankings that are read page by page: all pages show the ranking that the first page began.

A ranking with further pages is kept for a while. If it is gone, because too many came after it or because another
replica gets the next page, it is made again, and is the same as long as the index has not moved; else the page is
refused (`PageExpired`) rather than repeat or skip results.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic

from services.search.domain.collection_errors import PageExpired
from services.search.domain.query import ItemT, Results
from services.search.usecases.search_playbook import Answer

MOST_RESULTS = 100_000
"""Results kept over all rankings; each takes some hundred bytes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: in which ranking, made at which revision by which model, and after how many results."""

    pin: str
    revision: int
    model: str
    offset: int


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Some results of an answer, and where the next page begins; None on the last."""

    answer: Answer[ItemT]
    results: Results[ItemT]
    following: Place | None


class PinnedRankings(Generic[ItemT]):
    """Keeps what has further pages, up to a number of results altogether; the oldest goes first."""

    def __init__(self, most_results: int = MOST_RESULTS) -> None:
        self._most = most_results
        self._pinned: OrderedDict[str, Answer[ItemT]] = OrderedDict()
        self._held = 0

    async def page(self, size: int, place: Place | None, rank: Callable[[], Awaitable[Answer[ItemT]]]) -> Page[ItemT]:
        """The page that begins at `place`, the first one for None; a `size` of 0 gives everything at once.

        Raises `PageExpired`, and what `rank` raises.
        """
        if place is None:
            return self._cut(Place(secrets.token_hex(8), 0, "", 0), size, await rank())
        answer = self._pinned.get(place.pin)
        if answer is None:
            answer = await rank()
            if (answer.revision, answer.model) != (place.revision, place.model):
                raise PageExpired
        return self._cut(place, size, answer)

    def _cut(self, place: Place, size: int, answer: Answer[ItemT]) -> Page[ItemT]:
        results = answer.ranking.results
        end = place.offset + size if size else len(results)
        if end >= len(results):
            return Page(answer, results[place.offset :], None)
        self._keep(place.pin, answer)
        return Page(answer, results[place.offset : end], Place(place.pin, answer.revision, answer.model, end))

    def _keep(self, pin: str, answer: Answer[ItemT]) -> None:
        if pin not in self._pinned:
            self._held += len(answer.ranking.results)
            self._pinned[pin] = answer
        self._pinned.move_to_end(pin)
        while self._held > self._most and len(self._pinned) > 1:
            _, oldest = self._pinned.popitem(last=False)
            self._held -= len(oldest.ranking.results)
