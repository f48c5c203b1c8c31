"""By what lessons are compared: the words they share, or the vectors of the search service's embedder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Protocol

from services.curator.domain.likeness import WORDS, Measure, subject, thresholds_of
from services.curator.domain.log import Stored
from services.curator.domain.neighbours import Neighbours
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.vectors import Vectors

COMPARED_WITH_ALL = 256
"""Bullets up to which lessons are compared with all of them; of a larger playbook with the nearest ones."""
NEAREST = 32
"""Bullets that a lesson is compared with in a large playbook."""


class Similarity(Protocol):
    """Finds the bullets that lessons may repeat, and measures how alike texts are.

    Raises SimilarityUnavailable where that takes a service that does not answer; never answers by other means.
    """

    async def candidates(self, lessons: Sequence[str], playbook: Snapshot) -> Sequence[Stored]:
        """The bullets worth comparing with, in playbook order: the most alike of each lesson are among them."""
        ...

    async def measure(self, texts: Iterable[str]) -> Measure:
        """A measure of these texts."""
        ...

    async def relevant(self, lessons: Sequence[str], playbook: Snapshot, limit: int) -> Sequence[Stored]:
        """The `limit` bullets in use that matter most for the lessons, in playbook order; all when there are fewer."""
        ...


class WordSimilarity:
    """Compares by words alone; asks nobody."""

    async def candidates(self, lessons: Sequence[str], playbook: Snapshot) -> Sequence[Stored]:
        """All bullets: words are quickly compared."""
        return playbook.everything()

    async def measure(self, texts: Iterable[str]) -> Measure:
        """The measure of words."""
        return WORDS

    async def relevant(self, lessons: Sequence[str], playbook: Snapshot, limit: int) -> Sequence[Stored]:
        """Those that share most words with the lessons, each lesson in turn."""
        used = _in_use(playbook)
        if len(used) <= limit:
            return used
        return await asyncio.to_thread(_most_words, lessons, used, limit)


def _most_words(lessons: Sequence[str], used: Sequence[Stored], limit: int) -> Sequence[Stored]:
    neighbours = Neighbours(used)
    # Beside the bullets that share words, the first ones, so that there are always as many as are asked for.
    ranked = [[*neighbours.ranked(lesson, limit), *used[:limit]] for lesson in lessons]
    return _in_turn(ranked, limit)


class BulletSearch(Protocol):
    """The search service, as far as it finds bullets. Raises SimilarityUnavailable."""

    async def nearest(self, dataset: str, texts: Sequence[str], limit: int, revision: int) -> list[list[str]]:
        """For each text the ids of the `limit` bullets with the highest cosine, at `revision` or later, best first."""
        ...

    async def best(self, dataset: str, texts: Sequence[str], limit: int, revision: int) -> list[list[str]]:
        """For each text the ids of the `limit` bullets that search ranks highest, best first."""
        ...


class SearchSimilarity:
    """Compares by the cosine of the search service's vectors.

    The service finds the bullets of a large playbook that come near; which cosine they have is worked out here, from
    vectors of the texts as the curator has them, so it does not depend on how far the service's index is.
    """

    def __init__(self, search: BulletSearch, vectors: Vectors, same_lesson: float | None = None) -> None:
        """`same_lesson` is the cosine from which two lessons are the same, None what suits the embedder."""
        self._search = search
        self._vectors = vectors
        self._same_lesson = same_lesson

    async def candidates(self, lessons: Sequence[str], playbook: Snapshot) -> Sequence[Stored]:
        """All bullets of a small playbook; else those with the highest cosine, and those of the lessons' subjects.

        Retired bullets are not in the service's index; among them it is words that find candidates.
        """
        everything = playbook.everything()
        if len(everything) <= COMPARED_WITH_ALL or not lessons:
            return everything
        found = await self._search.nearest(playbook.dataset, lessons, NEAREST, playbook.revision)
        near = {bullet_id for ids in found for bullet_id in ids}
        return await asyncio.to_thread(_worth_comparing, lessons, everything, near)

    async def measure(self, texts: Iterable[str]) -> Measure:
        """The cosine of the vectors of these texts; a text that is not among them is compared by nothing (0)."""
        model, vectors = await self._vectors.of(list(dict.fromkeys(texts)))

        def cosine(one: str, other: str) -> float:
            first, second = vectors.get(one), vectors.get(other)
            return 0.0 if first is None or second is None else float(first @ second)

        measured = thresholds_of(model)
        thresholds = replace(measured, same_lesson=self._same_lesson or measured.same_lesson)
        return Measure(f"cosine of {model}", thresholds, cosine)

    async def relevant(self, lessons: Sequence[str], playbook: Snapshot, limit: int) -> Sequence[Stored]:
        """Those the service ranks highest for the lessons, each lesson in turn."""
        used = _in_use(playbook)
        if len(used) <= limit:
            return used
        found = await self._search.best(playbook.dataset, lessons, limit, playbook.revision)
        known = {stored.bullet.id: stored for stored in reversed(used)}
        return _in_turn([[known[bullet_id] for bullet_id in ids if bullet_id in known] for ids in found], limit)


def _in_use(playbook: Snapshot) -> list[Stored]:
    return [stored for stored in playbook.everything() if not stored.bullet.retired]


def _worth_comparing(lessons: Sequence[str], everything: Sequence[Stored], near: set[str]) -> Sequence[Stored]:
    subjects = {about for lesson in lessons if (about := subject(lesson)) is not None}
    retired = Neighbours(stored for stored in everything if stored.bullet.retired)
    slots = {stored.slot for lesson in lessons for stored in retired.ranked(lesson, NEAREST)}
    return [
        stored
        for stored in everything
        if stored.bullet.id in near or stored.slot in slots or subject(stored.bullet.content) in subjects
    ]


def _in_turn(ranked: Sequence[Sequence[Stored]], limit: int) -> Sequence[Stored]:
    """The best of each list, then the second of each, until there are `limit`; in playbook order."""
    chosen: dict[int, Stored] = {}
    for stored in _across(ranked):
        if len(chosen) == limit:
            break
        chosen.setdefault(stored.slot, stored)
    return [chosen[slot] for slot in sorted(chosen)]


def _across(ranked: Sequence[Sequence[Stored]]) -> Iterator[Stored]:
    for places in zip_longest(*ranked):
        yield from (stored for stored in places if stored is not None)
