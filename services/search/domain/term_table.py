"""Which terms each row holds, and which rows hold each term."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from services.search.domain.columns import Column
from services.search.domain.frozen import FrozenTerms
from services.search.domain.postings import (
    AppendPostings,
    Int32s,
    Int64s,
    Postings,
    PostingsView,
    append_postings,
    lists_of_rows,
)


class TermTable:
    """The writer's side of a term table, written row by row in both directions."""

    def __init__(self, append: AppendPostings = append_postings) -> None:
        self._postings = Postings(append)
        self._numbers = Column(np.int32)
        self._counts = Column(np.int32)
        self._pointers = Column(np.int64)
        self._pointers.push(0)

    @classmethod
    def of(cls, frozen: FrozenTerms, append: AppendPostings = append_postings) -> TermTable:
        """The table of these rows."""
        table = cls()
        ids = {term: number for number, term in enumerate(frozen.names)}
        table._postings = Postings.of(ids, frozen.lists, append)
        table._numbers, table._counts = Column.of(frozen.numbers), Column.of(frozen.counts)
        table._pointers = Column.of(frozen.pointers)
        return table

    @property
    def ids(self) -> dict[str, int]:
        """The number of every term, in ascending order of numbers."""
        return self._postings.ids

    @property
    def numbers(self) -> Int32s:
        """The terms of all rows, one row after another."""
        return self._numbers.rows

    @property
    def counts(self) -> Int32s:
        """How often each of `numbers` occurs in its row."""
        return self._counts.rows

    @property
    def pointers(self) -> Int64s:
        """Where in `numbers` each row begins, and where the last one ends."""
        return self._pointers.rows

    def append(self, counted: Mapping[str, int], terms: int) -> Int32s:
        """Write the next row, which has so many `terms`, counted with repetitions; the numbers of its terms."""
        row = self._pointers.used - 1
        numbers, counts = self._numbers.extended(len(counted)), self._counts.extended(len(counted))
        numbers[:] = self._postings.numbers(counted)
        # Most texts that are short have each of their terms once.
        counts[:] = 1 if len(counted) == terms else list(counted.values())
        self._pointers.push(self._numbers.used)
        self._postings.append(row, numbers, counts)
        return numbers

    def of_row(self, row: int) -> Int32s:
        """The numbers of the row's terms."""
        start, end = self._pointers.array[row], self._pointers.array[row + 1]
        return self._numbers.array[start:end]

    def holding(self) -> Int64s:
        """For each term, how many rows hold it."""
        return np.bincount(self.numbers, minlength=len(self.ids)).astype(np.int64)

    def lists(self) -> PostingsView:
        """The rows of every term, as they are now."""
        return self._postings.view()

    def frozen(self, rows: Int64s) -> FrozenTerms:
        """These rows only, in this order; terms that none of them holds are left out."""
        lengths = np.diff(self.pointers)[rows]
        pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = _ranges(self.pointers[rows], lengths)
        used, numbers = np.unique(self.numbers[places], return_inverse=True)
        names = list(self.ids)
        renumbered: Int32s = numbers.astype(np.int32)
        counts = self.counts[places]
        lists = lists_of_rows(pointers, renumbered, counts, len(used))
        return FrozenTerms([names[number] for number in used.tolist()], pointers, renumbered, counts, lists)


def _ranges(starts: Int64s, lengths: NDArray[np.int64]) -> Int64s:
    """start, start + 1, … of every range, one range after another."""
    before = np.cumsum(lengths) - lengths
    places: Int64s = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return places
