"""Inverted lists: for each term, the rows that contain it, its number of occurrences and the sentences it occurs in.

All lists are in three parallel arrays, the pool. A list has a region there with spare capacity; a list that exceeds its
capacity moves to a larger region at the end of the pool. Readers see an immutable state: every change makes a new table
of regions, positions of the pool in a published region are never written again, and a growing pool is a new array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.search.domain.columns import grow

Int32s = NDArray[np.int32]
Uint32s = NDArray[np.uint32]
Int64s = NDArray[np.int64]
Mask = NDArray[np.bool_]

TERM_BYTES = 150
"""Bytes of a term: a text of about ten characters, its number and its place in a dictionary."""
_ROW_BITS = 32
_SENTENCE_BITS = 5
_SENTENCES = 1 << _SENTENCE_BITS
_BLOCK = 65_536


class PostingsView(NamedTuple):
    """The lists at one moment. That of term n is `rows[start : start + length]`, ascending, with `regions[n]` its
    start and length; `counts` has the occurrences of the term in each row, `sentences` their sentences as bits.

    ``ids`` numbers the terms and grows: terms without a region are newer than the view.
    """

    ids: Mapping[str, int]
    rows: Int32s
    counts: Int32s
    regions: Int64s
    sentences: Uint32s

    def find_numbers(self, terms: Iterable[str]) -> list[int]:
        """Return the numbers of those terms that have a list, with repetitions."""
        limit = len(self.regions)
        return [number for number in map(self.ids.get, terms, repeat(limit)) if number < limit]

    def find_rows(self, term: str) -> Int32s:
        """Return the rows that contain the term, ascending."""
        for number in self.find_numbers([term]):
            start, length = self.regions[number].tolist()
            return self.rows[start : start + length]
        return self.rows[:0]

    def count_rows(self, mask: Mask | None) -> Int64s:
        """Return for every term the number of rows that contain it, of those that the mask admits."""
        starts: Int64s = self.regions[:, 0]
        lengths: Int64s = self.regions[:, 1]
        if mask is None:
            return lengths
        # Positions outside of lists have undefined content: only differences over whole lists are used.
        admitted = np.concatenate([[0], np.cumsum(mask.take(self.rows, mode="clip"))])
        counts: Int64s = admitted[starts + lengths] - admitted[starts]
        return counts


class Postings:
    """The writer's side of inverted lists. Rows must be appended in ascending order."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._rows = np.empty(0, np.int32)
        self._counts = np.empty(0, np.int32)
        self._sentences = np.empty(0, np.uint32)
        self._regions = np.empty((0, 2), np.int64)
        self._capacities = np.empty(0, np.int64)
        self._used = 0

    def create_view(self) -> PostingsView:
        """Return the lists as they are now."""
        return PostingsView(self._ids, self._rows, self._counts, self._regions, self._sentences)

    def append(
        self, first: int, terms_of_rows: Sequence[Sequence[str]], sentences_of_rows: Sequence[Sequence[int]] = ()
    ) -> None:
        """Write the rows from number `first` on, which contain these terms, with repetitions.

        ``sentences_of_rows`` has the number of each term's sentence; without it each row is one sentence.
        """
        sentences_of_rows = sentences_of_rows or [[0] * len(terms) for terms in terms_of_rows]
        if len(terms_of_rows) == 1:
            self._append_row(first, terms_of_rows[0], sentences_of_rows[0])
            return
        for start in range(0, len(terms_of_rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            self._append(first + start, terms_of_rows[block], sentences_of_rows[block])

    def _append_row(self, row: int, terms: Sequence[str], sentences: Sequence[int]) -> None:
        """Write one row: for so few terms the steps of `_append` would take twice the time."""
        ids, counts = self._ids, Counter(terms)
        sets = dict.fromkeys(counts, 0)
        for term, sentence in zip(terms, sentences, strict=True):
            sets[term] |= 1 << sentence % _SENTENCES
        numbers = np.array([ids.setdefault(term, len(ids)) for term in counts], np.int64)
        self._extend_tables()
        positions: list[int] = []
        regions, capacities = self._regions.take(numbers, axis=0).tolist(), self._capacities.take(numbers).tolist()
        for number, (start, length), capacity in zip(numbers.tolist(), regions, capacities, strict=True):
            begin = self._move_list(number, start, length) if length == capacity else start
            positions.append(begin + length)
        written = np.array(positions, np.int64)
        self._rows[written], self._counts[written] = row, list(counts.values())
        self._sentences[written] = list(sets.values())
        self._regions[numbers, 1] += 1

    def _move_list(self, number: int, start: int, length: int) -> int:
        """Move a full list to the end of the pool, as `_grow_lists` does; return its new start."""
        moved, capacity = self._used, 2 * length + 2 if length else 1
        self._reserve(moved + capacity)
        if length:
            for column in (self._rows, self._counts, self._sentences):
                column[moved : moved + length] = column[start : start + length]
        self._regions[number, 0], self._capacities[number] = moved, capacity
        return moved

    def _append(
        self, first: int, terms_of_rows: Sequence[Sequence[str]], sentences_of_rows: Sequence[Sequence[int]]
    ) -> None:
        ids = self._ids
        numbers = [ids.setdefault(term, len(ids)) for term in chain.from_iterable(terms_of_rows)]
        if not numbers:
            return
        rows = np.repeat(np.arange(first, first + len(terms_of_rows)), [len(terms) for terms in terms_of_rows])
        sentences = np.fromiter(chain.from_iterable(sentences_of_rows), np.int64, len(numbers)) % _SENTENCES
        keys = np.sort((np.array(numbers, np.int64) << _ROW_BITS | rows) << _SENTENCE_BITS | sentences)
        pairs, counts = _count_values(keys >> _SENTENCE_BITS)
        bits = np.left_shift(1, keys & (_SENTENCES - 1)).astype(np.uint32)
        changed, added = _count_values(pairs >> _ROW_BITS)
        self._extend_tables()
        self._grow_lists(changed, added)
        starts, lengths = self._regions[changed].T
        positions = _concatenate_ranges(starts + lengths, added)
        self._rows[positions] = pairs & (1 << _ROW_BITS) - 1
        self._counts[positions] = counts
        self._sentences[positions] = np.bitwise_or.reduceat(bits, np.cumsum(counts) - counts)
        self._regions[changed, 1] += added

    def _grow_lists(self, numbers: Int64s, added: Int64s) -> None:
        """Move the lists without capacity for so many more rows to the end of the pool."""
        needed = self._regions[numbers, 1] + added
        full = needed > self._capacities[numbers]
        if not full.any():
            return
        numbers, needed = numbers[full], needed[full]
        starts, lengths = self._regions[numbers].T
        # A new list gets the capacity that it needs, a growing one twice that.
        capacities = np.where(lengths == 0, needed, 2 * needed)
        moved = self._used + capacities.cumsum() - capacities
        self._reserve(self._used + int(capacities.sum()))
        before, after = _concatenate_ranges(starts, lengths), _concatenate_ranges(moved, lengths)
        for column in (self._rows, self._counts, self._sentences):
            column[after] = column[before]
        self._regions[numbers, 0], self._capacities[numbers] = moved, capacities

    def _extend_tables(self) -> None:
        """Make a new table of regions, with the new terms: that of the last view never changes."""
        self._regions = _extend(self._regions, len(self._ids))
        if len(self._ids) > len(self._capacities):
            self._capacities = _extend(self._capacities, len(self._ids))

    def _reserve(self, used: int) -> None:
        """Use the pool up to this position."""
        if used > len(self._rows):
            self._rows, self._counts, self._sentences = (
                grow(column, self._used, used) for column in (self._rows, self._counts, self._sentences)
            )
        self._used = used

    @property
    def allocated_bytes(self) -> int:
        """Return the bytes of the lists and, by estimate, of the terms."""
        arrays = (self._rows, self._counts, self._sentences, self._regions, self._capacities)
        return sum(array.nbytes for array in arrays) + TERM_BYTES * len(self._ids)

    def export(self, alive: Mask | None, name: str) -> tuple[list[str], dict[str, NDArray[Any]]]:
        """Return the terms and, by names that begin with `name`, arrays of the lists without spare capacity.

        With ``alive`` only these rows stay, numbered again in their order, and terms without rows are dropped.
        """
        starts, lengths = self._regions.T
        positions = _concatenate_ranges(starts, lengths)
        rows, counts, names = self._rows[positions], self._counts[positions], list(self._ids)
        sentences = self._sentences[positions]
        if alive is not None:
            retained = alive[rows]
            ends = np.concatenate([[0], np.cumsum(retained)])[np.cumsum(lengths)]
            lengths = np.diff(ends, prepend=0)
            rows = (np.cumsum(alive, dtype=np.int32) - np.int32(1))[rows[retained]]
            counts, sentences = counts[retained], sentences[retained]
            names = [term for term, length in zip(names, lengths.tolist(), strict=True) if length]
            lengths = lengths[lengths > 0]
        arrays: dict[str, NDArray[Any]] = {"rows": rows, "counts": counts, "sentences": sentences, "lengths": lengths}
        return names, {f"{name}.{column}": array for column, array in arrays.items()}

    @classmethod
    def restore(cls, names: Sequence[str], arrays: Mapping[str, NDArray[Any]], name: str) -> Postings:
        """Return the postings of exported arrays; the lists are copied when they grow."""
        postings = cls()
        postings._ids = {term: number for number, term in enumerate(names)}
        postings._rows, postings._counts, postings._sentences = (
            arrays[f"{name}.{column}"] for column in ("rows", "counts", "sentences")
        )
        lengths = arrays[f"{name}.lengths"]
        postings._regions = np.stack([np.cumsum(lengths) - lengths, lengths], axis=1).astype(np.int64)
        postings._capacities = np.array(lengths, np.int64)
        postings._used = len(postings._rows)
        return postings


def _count_values(ascending: Int64s) -> tuple[Int64s, Int64s]:
    """Return the distinct values and their numbers of occurrences."""
    first = np.empty(len(ascending) + 1, np.bool_)
    first[0] = first[-1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:-1])
    positions = first.nonzero()[0]
    return ascending[positions[:-1]], positions[1:] - positions[:-1]


def _extend(table: NDArray[Any], count: int) -> NDArray[Any]:
    """Return a copy of the table, extended with zeros to `count` rows."""
    copy = np.zeros((count, *table.shape[1:]), table.dtype)
    copy[: len(table)] = table
    return copy


def _concatenate_ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """Return start, start + 1, … of every range, one range after another."""
    ends = lengths.cumsum()
    positions: Int64s = (starts - ends + lengths).repeat(lengths)
    positions += np.arange(len(positions))
    return positions
