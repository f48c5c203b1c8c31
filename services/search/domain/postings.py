"""Inverted lists: for each term, the rows that hold it and how often.

All lists lie in two parallel arrays, the pool. A list has a region there with room to grow; when the room is used up
the list moves to a region twice as large at the pool's end. Nothing that a reader was shown is ever overwritten: the
old region stays as it was, and a pool that grows is a new array together with a new table of regions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.search.domain.columns import grown

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


class Lists(NamedTuple):
    """Some lists of a pool: list i is `rows[start[i] : start[i] + length[i]]`, ascending, and `counts` alike."""

    rows: Int32s
    counts: Int32s
    start: Int64s
    length: Int64s


class PostingsView(NamedTuple):
    """The postings as a reader sees them. Lists may already hold rows of later versions; readers cut them off."""

    ids: dict[str, int]
    rows: Int32s
    counts: Int32s
    start: Int64s
    length: Int64s

    def of(self, terms: Iterable[str]) -> tuple[list[str], Lists]:
        """The terms that are known, and their lists."""
        known: list[str] = []
        found: list[int] = []
        limit = len(self.length)
        for term in terms:
            number = self.ids.get(term, limit)
            if number < limit:
                known.append(term)
                found.append(number)
        return known, self.numbered(np.array(found, dtype=np.int64))

    def numbered(self, numbers: Int64s) -> Lists:
        """The lists of the terms with these numbers."""
        # The length first: if the writer moves the list in between, its new region begins with the same rows.
        length = self.length[numbers]
        start = self.start[numbers]
        return Lists(self.rows, self.counts, start, length)


class Postings:
    """The writer's side of inverted lists. Rows must be appended in ascending order."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self._rows: Int32s = np.empty(0, np.int32)
        self._counts: Int32s = np.empty(0, np.int32)
        self._used = 0
        self._start: Int64s = np.empty(0, np.int64)
        self._length: Int64s = np.empty(0, np.int64)
        self._room: Int64s = np.empty(0, np.int64)

    @classmethod
    def build(cls, ids: dict[str, int], pointers: Int64s, terms: Int32s, counts: Int32s) -> Postings:
        """Postings of rows given one after another: row i holds `terms[pointers[i] : pointers[i + 1]]`."""
        postings = cls()
        postings.ids = ids
        by_term = np.argsort(terms, kind="stable")
        rows = np.repeat(np.arange(len(pointers) - 1, dtype=np.int32), np.diff(pointers))
        postings._rows = rows[by_term]
        postings._counts = counts[by_term]
        postings._used = len(terms)
        postings._length = np.bincount(terms, minlength=len(ids)).astype(np.int64)
        postings._start = np.cumsum(postings._length) - postings._length
        postings._room = postings._length.copy()
        return postings

    def numbers(self, terms: Iterable[str]) -> Int32s:
        """The numbers of terms; a new term gets the next one."""
        ids = self.ids
        numbers = np.array([ids.setdefault(term, len(ids)) for term in terms], dtype=np.int32)
        if len(ids) > len(self._length):
            self._add_regions(len(ids))
        return numbers

    def append(self, row: int, numbers: Int32s, counts: Int32s) -> None:
        """Write `row` at the end of the lists of these distinct terms."""
        full = numbers[self._length[numbers] == self._room[numbers]]
        if len(full):
            self._move(full)
        end = self._start[numbers] + self._length[numbers]
        self._rows[end] = row
        self._counts[end] = counts
        self._length[numbers] += 1

    def view(self) -> PostingsView:
        """The postings as they are now."""
        return PostingsView(self.ids, self._rows, self._counts, self._start, self._length)

    def _add_regions(self, needed: int) -> None:
        known = len(self._length)
        self._start, self._length, self._room = (
            grown(table, known, needed) for table in (self._start, self._length, self._room)
        )
        for table in (self._start, self._length, self._room):
            table[known:] = 0

    def _move(self, numbers: Int32s) -> None:
        """Give each of these lists a region twice as large at the end of the pool."""
        lengths = self._length[numbers]
        room = np.maximum(1, lengths * 2)
        regions = self._used + np.cumsum(room) - room
        needed = self._used + int(room.sum())
        if needed > len(self._rows):
            self._rows = grown(self._rows, self._used, needed)
            self._counts = grown(self._counts, self._used, needed)
            # Readers of the old pool keep the old table: this one will name regions that their pool does not have.
            self._start, self._length, self._room = self._start.copy(), self._length.copy(), self._room.copy()
        for number, length, region in zip(
            numbers[lengths > 0], lengths[lengths > 0], regions[lengths > 0], strict=True
        ):
            old = self._start[number]
            self._rows[region : region + length] = self._rows[old : old + length]
            self._counts[region : region + length] = self._counts[old : old + length]
        self._start[numbers] = regions
        self._room[numbers] = room
        self._used = needed
