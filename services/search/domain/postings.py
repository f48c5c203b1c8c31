"""Inverted lists: for each term, the rows that hold it and how often.

All lists lie in two parallel arrays, the pool. A list has a region there with room to grow; when the room is used up
the list moves to a region twice as large at the pool's end. Nothing that a reader was shown is ever overwritten: the
old region stays as it was, and a pool that grows is a new array together with a new table of regions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.search.domain.columns import grown

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


Regions = Int64s
"""For each list, shape (lists,): where it lies in the pool, as one number, `start << LENGTH_BITS | length`.

Who looks while the writer moves a list or makes it longer sees both as they were or both as they are.
"""

LENGTH_BITS = 31
LENGTH = (1 << LENGTH_BITS) - 1


class Lists(NamedTuple):
    """Some lists of a pool, by where they lie: ascending rows, and beside each how often it holds the term."""

    rows: Int32s
    counts: Int32s
    regions: Int64s

    def places(self) -> list[slice]:
        """Where each list stands in `rows` and in `counts`."""
        return [
            slice(region >> LENGTH_BITS, (region >> LENGTH_BITS) + (region & LENGTH))
            for region in self.regions.tolist()
        ]


_NO_NUMBERS = np.empty(0, np.int64)


class PostingsView(NamedTuple):
    """The postings as a reader sees them. Lists may already hold rows of later versions; readers cut them off."""

    ids: dict[str, int]
    rows: Int32s
    counts: Int32s
    regions: Regions

    def numbers(self, terms: Iterable[str]) -> list[int]:
        """The numbers of the terms that are known, each as often as it is among the `terms`."""
        limit = len(self.regions)
        return [number for number in map(self.ids.get, terms, repeat(limit)) if number < limit]

    def regions_of(self, numbers: Sequence[int] | Int64s) -> Int64s:
        """The regions of the lists with these numbers."""
        return self.regions.take(numbers if len(numbers) else _NO_NUMBERS)

    def numbered(self, numbers: Sequence[int] | Int64s) -> Lists:
        """The lists of the terms with these numbers."""
        return Lists(self.rows, self.counts, self.regions_of(numbers))


class Pool(NamedTuple):
    """Where the lists lie: rows, and how often each holds the term."""

    rows: Int32s
    counts: Int32s


class PackedLists(NamedTuple):
    """Lists without room: that of term n ends in both arrays at `ends[n]`, and begins where the last one ends."""

    ends: Int64s
    rows: Int32s
    counts: Int32s


def lists_of_rows(pointers: Int64s, terms: Int32s, counts: Int32s, distinct: int) -> PackedLists:
    """The lists of rows given one after another: row i holds `terms[pointers[i] : pointers[i + 1]]`."""
    by_term = np.argsort(terms, kind="stable")
    rows = np.repeat(np.arange(len(pointers) - 1, dtype=np.int32), np.diff(pointers))
    ends = np.cumsum(np.bincount(terms, minlength=distinct), dtype=np.int64)
    return PackedLists(ends, rows[by_term], counts[by_term])


def append_postings(
    row: int, numbers: Int32s, counts: Int32s, pool: Pool, regions: Regions, room: Int64s, used: int
) -> int:
    """Write `row` at the end of the lists of these distinct terms, moving full ones behind the pool's `used` places.

    ``room`` says for how many rows each list has room.
    Returns how many places are used then; the negative of it if the pool is too small, and then nothing has changed.
    """
    full = [number for number in numbers.tolist() if regions[number] & LENGTH == room[number]]
    needed = used + sum(max(1, 2 * int(room[number])) for number in full)
    if needed > len(pool.rows):
        return -needed
    for number in full:
        old, held = int(regions[number]) >> LENGTH_BITS, int(room[number])
        for column in pool:
            column[used : used + held] = column[old : old + held]
        regions[number], room[number] = used << LENGTH_BITS | held, max(1, 2 * held)
        used += max(1, 2 * held)
    end = (regions[numbers] >> LENGTH_BITS) + (regions[numbers] & LENGTH)
    pool.rows[end] = row
    pool.counts[end] = counts
    regions[numbers] += 1
    return used


AppendPostings = Callable[[int, Int32s, Int32s, Pool, Regions, Int64s, int], int]
"""`append_postings`, or a faster one that does the same. Readers may look on only before and after it."""


class Postings:
    """The writer's side of inverted lists. Rows must be appended in ascending order."""

    def __init__(self, append: AppendPostings = append_postings) -> None:
        self.ids: dict[str, int] = {}
        self._append = append
        self._pool = Pool(np.empty(0, np.int32), np.empty(0, np.int32))
        self._regions: Regions = np.empty(0, np.int64)
        self._room = np.empty(0, np.int64)
        self._used = 0
        # What readers are given, until the arrays are others.
        self._seen: PostingsView | None = None

    @classmethod
    def of(cls, ids: dict[str, int], lists: PackedLists, append: AppendPostings = append_postings) -> Postings:
        """The postings of these terms; the lists are not copied until they grow."""
        postings = cls(append)
        postings.ids = ids
        postings._pool = Pool(lists.rows, lists.counts)
        postings._used = len(lists.rows)
        length = np.diff(lists.ends, prepend=0)
        postings._regions, postings._room = lists.ends - length << LENGTH_BITS | length, length
        return postings

    def numbers(self, terms: Collection[str]) -> list[int]:
        """The numbers of terms; a new term gets the next one."""
        ids = self.ids
        numbers = [ids.setdefault(term, len(ids)) for term in terms]
        if len(ids) > len(self._regions):
            self._add_regions(len(ids))
        return numbers

    def append(self, row: int, numbers: Int32s, counts: Int32s) -> None:
        """Write `row` at the end of the lists of these distinct terms."""
        used = self._append(row, numbers, counts, self._pool, self._regions, self._room, self._used)
        if used < 0:
            self._pool = Pool(*(grown(column, self._used, -used) for column in self._pool))
            # Readers of the old pool keep the old table: this one will name regions that their pool does not have.
            self._regions = self._regions.copy()
            self._seen = None
            used = self._append(row, numbers, counts, self._pool, self._regions, self._room, self._used)
        self._used = used

    def view(self) -> PostingsView:
        """The postings as they are now."""
        seen = self._seen
        if seen is None:
            seen = self._seen = PostingsView(self.ids, *self._pool, self._regions)
        return seen

    def _add_regions(self, needed: int) -> None:
        known = len(self._regions)
        self._regions = grown(self._regions, known, needed)
        self._room = grown(self._room, known, needed)
        self._regions[known:] = self._room[known:] = 0
        self._seen = None
