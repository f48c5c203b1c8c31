"""A hybrid index that one writer changes; every change publishes a new immutable view.

Rows are only appended. A changed entry gets a new row, and its old row is marked dead in a copy of the marks. So one
writer and any number of readers share the arrays without waiting, both kinds of scores always belong to the same
version, and the cost of a change follows its size. When most rows are dead, the live ones move to new arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from libs.embedding.errors import EmbeddingFailed
from services.search.domain.bm25 import OKAPI
from services.search.domain.columns import Column
from services.search.domain.entry import Entry
from services.search.domain.items import Items
from services.search.domain.loops import VectorRows
from services.search.domain.neighbours import EXTENDED_SHARE, NeighbourIndex
from services.search.domain.postings import Postings
from services.search.domain.query import ItemT
from services.search.domain.sentences import EntryTerms, tokenize_entry
from services.search.domain.snapshot import IndexState
from services.search.domain.tokenizers import Tokenizer, tokenize_whitespace
from services.search.domain.vectors import Float32s, Floats, Vectors, are_finite
from services.search.domain.view import IndexView, LoopsInUse, RankingRules, encode_facet

# Dead rows are tolerated up to the number of live ones, and always up to this number.
TOLERATED_DEAD_ROWS = 1024
NEIGHBOURS = "neighbours."
"""The prefix of the neighbour index's arrays in a state."""

RestoreNeighbours = Callable[[Mapping[str, NDArray[Any]]], NeighbourIndex]
DEFAULT_RULES = RankingRules(OKAPI, LoopsInUse())


class HybridIndex(Generic[ItemT]):
    """An index of entries with vectors of `dimension`; `view` is its newest state."""

    def __init__(
        self, dimension: int, tokenize: Tokenizer = tokenize_whitespace, rules: RankingRules = DEFAULT_RULES
    ) -> None:
        self._tokenize = tokenize
        self._rules = rules
        self._write_lock = threading.Lock()
        self._ids: list[str] = []
        self._row_of: dict[str, int] = {}
        self._items: Items[ItemT] = Items()
        self._vectors = Vectors.create(dimension)
        self._columns = {
            "order": Column(np.int64),
            "alive": Column(np.bool_),
            "confidence": Column(np.float64),
            "smoothed_confidence": Column(np.float64),
            "lengths": Column(np.int32),
        }
        self._words, self._facets = Postings(), Postings()
        self._neighbours: NeighbourIndex | None = None
        self._compactions = 0
        self._next_position = 0
        self._total_length = 0
        self.view = self._publish(0)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._row_of

    def contains_item(self, entry_id: str, item: ItemT) -> bool:
        """Return whether the entry exists and has an equal item."""
        row = self._row_of.get(entry_id)
        return row is not None and self._items.has_at(row, item)

    def apply(
        self,
        entries: Sequence[Entry[ItemT]] = (),
        vectors: Floats | Float32s | None = None,
        deleted: Sequence[str] = (),
        revision: int = 0,
        order: Sequence[str] | None = None,
    ) -> IndexView[ItemT]:
        """See `SearchIndex`. Raises `EmbeddingFailed`, `InvalidEntry`."""
        matrix = self._check_vectors(len(entries), vectors)
        tokenized = [self._tokenize_entry(entry) for entry in entries]
        with self._write_lock:
            dead = [row for entry_id in deleted if (row := self._row_of.pop(entry_id, None)) is not None]
            dead += self._append(entries, matrix, tokenized)
            if dead:
                self._mark_dead(dead)
            if order is not None:
                self._reorder(order)
            if len(self._ids) - len(self._row_of) > max(TOLERATED_DEAD_ROWS, len(self._row_of)):
                self._compact()
            self.view = self._publish(revision)
            return self.view

    def build_neighbours(self) -> bool:
        """Build, extend or rebuild the neighbour index if there are enough rows; return whether it was built.

        This takes seconds to minutes, and blocks neither readers nor writers.
        """
        view, compactions, build = self.view, self._compactions, self._rules.build_neighbours
        if build is None or view.live <= self._rules.exact_limit:
            return False
        present = view.neighbours
        if present is None or present.is_outgrown_by(view.live):
            neighbours = build(view.vectors.units, np.flatnonzero(view.alive), view.rows)
        elif (view.rows - present.covered_rows) * EXTENDED_SHARE > view.rows:
            neighbours = present.extend(view.vectors.units[present.covered_rows :])
        else:
            return False
        with self._write_lock:
            if self._compactions != compactions:
                return False
            self._neighbours = neighbours
            self.view = self._publish(self.view.revision)
        return True

    @property
    def allocated_bytes(self) -> int:
        """Return the bytes that the index takes in memory, by estimate where it has objects instead of arrays."""
        columns = sum(column.allocated_bytes for column in self._columns.values())
        postings = self._words.allocated_bytes + self._facets.allocated_bytes
        return columns + postings + self._vectors.allocated_bytes + self._items.allocated_bytes

    def export_state(self) -> IndexState[ItemT]:
        """Return the newest state as plain arrays. Writers wait meanwhile, readers do not."""
        with self._write_lock:
            return self._export()

    @classmethod
    def restore(
        cls,
        state: IndexState[ItemT],
        tokenize: Tokenizer = tokenize_whitespace,
        rules: RankingRules = DEFAULT_RULES,
        restore_neighbours: RestoreNeighbours | None = None,
    ) -> HybridIndex[ItemT]:
        """Return an index that continues from `state`, which was made with the same tokeniser."""
        index = cls(state.arrays["units"].shape[1], tokenize, rules)
        index._adopt(state)
        neighbour_arrays = {
            name.removeprefix(NEIGHBOURS): array for name, array in state.arrays.items() if name.startswith(NEIGHBOURS)
        }
        if neighbour_arrays and restore_neighbours is not None:
            index._neighbours = restore_neighbours(neighbour_arrays)
        index.view = index._publish(state.revision)
        return index

    def _check_vectors(self, count: int, vectors: Floats | Float32s | None) -> Floats | Float32s:
        width = self._vectors.units.rows.shape[1]
        if vectors is None or not count:
            vectors = np.zeros((0, width), np.float32)
        if vectors.shape != (count, width):
            raise EmbeddingFailed(f"vectors of shape {vectors.shape} for an index of {(count, width)}")
        if not are_finite(vectors):
            raise EmbeddingFailed("a vector with a value that is not finite")
        return vectors

    def _tokenize_entry(self, entry: Entry[ItemT]) -> EntryTerms:
        entry.check()
        return tokenize_entry(entry.text, entry.keywords, self._tokenize, split=self._rules.sentence_weight > 0.0)

    def _append(
        self, entries: Sequence[Entry[ItemT]], vectors: Floats | Float32s, tokenized: Sequence[EntryTerms]
    ) -> list[int]:
        """Write a row for each entry; return the rows that these replace."""
        if not entries:
            return []
        first, former_order = len(self._ids), self._columns["order"].rows
        order: list[int] = []
        replaced: list[int] = []
        for row, entry in enumerate(entries, first):
            before = self._row_of.get(entry.id)
            if before is None:
                order.append(self._next_position)
                self._next_position += 1
            else:
                order.append(order[before - first] if before >= first else int(former_order[before]))
                replaced.append(before)
            self._row_of[entry.id] = row
        lengths = [len(entry.terms) for entry in tokenized]
        self._ids.extend(entry.id for entry in entries)
        self._items.extend(entry.item for entry in entries)
        self._columns["order"].append(order)
        self._columns["alive"].append(np.ones(len(entries), np.bool_))
        self._columns["confidence"].append([entry.confidence for entry in entries])
        self._columns["smoothed_confidence"].append([entry.smoothed_confidence for entry in entries])
        self._columns["lengths"].append(lengths)
        self._vectors.append(vectors)
        self._words.append(first, [entry.terms for entry in tokenized], [entry.sentences for entry in tokenized])
        self._facets.append(first, [_encode_facets(entry) for entry in entries])
        self._total_length += sum(lengths)
        return replaced

    def _mark_dead(self, dead: Sequence[int]) -> None:
        """Mark rows dead, in another column: in earlier views they stay alive."""
        alive = self._columns["alive"].rows.copy()
        alive[dead] = False
        self._columns["alive"] = Column.from_array(alive)
        self._total_length -= int(self._columns["lengths"].rows[dead].sum())

    def _reorder(self, order: Sequence[str]) -> None:
        """Set the positions of the live rows; ids that are not in `order` come last, in their former order."""
        listed = {entry_id: position for position, entry_id in reversed(list(enumerate(order)))}
        positions = self._columns["order"].rows.copy()
        for entry_id, row in self._row_of.items():
            positions[row] = listed.get(entry_id, len(order) + positions[row])
        self._columns["order"] = Column.from_array(positions)
        self._next_position = len(order) + self._next_position

    def _compact(self) -> None:
        """Move the live rows to new arrays; earlier views keep the old ones."""
        neighbours = self._neighbours and self._neighbours.renumber(self._columns["alive"].rows)
        self._adopt(self._export())
        self._neighbours = neighbours
        self._compactions += 1

    def _export(self) -> IndexState[ItemT]:
        """Return the live rows, in their order."""
        alive = self._columns["alive"].rows
        arrays = {
            **{name: column.rows for name, column in self._columns.items() if name != "alive"},
            **{name: column.rows for name, column in vars(self._vectors).items()},
        }
        ids, rows, mask, neighbours = self._ids, None, None, self._neighbours
        if len(self._row_of) < len(self._ids):
            mask, rows = alive, np.flatnonzero(alive).tolist()
            ids = [self._ids[row] for row in rows]
            arrays = {name: array[alive] for name, array in arrays.items()}
            neighbours = neighbours and neighbours.renumber(alive)
        terms, word_arrays = self._words.export(mask, "words")
        facets, facet_arrays = self._facets.export(mask, "facets")
        arrays |= word_arrays | facet_arrays
        if neighbours is not None:
            arrays |= {NEIGHBOURS + name: array for name, array in neighbours.export().items()}
        return IndexState(self.view.revision, list(ids), self._items.select(rows), terms, facets, arrays)

    def _adopt(self, state: IndexState[ItemT]) -> None:
        """Replace all rows by those of the state."""
        arrays = state.arrays
        self._ids, self._items = list(state.ids), state.items
        self._row_of = {entry_id: row for row, entry_id in enumerate(self._ids)}
        names = ("order", "confidence", "smoothed_confidence", "lengths")
        self._columns = {name: Column.from_array(arrays[name]) for name in names}
        self._columns["alive"] = Column.from_array(np.ones(len(self._ids), np.bool_))
        self._vectors = Vectors(*(Column.from_array(arrays[name]) for name in ("units", "codes", "bounds")))
        self._words = Postings.restore(state.terms, arrays, "words")
        self._facets = Postings.restore(state.facets, arrays, "facets")
        self._next_position = int(arrays["order"].max(initial=-1)) + 1
        self._total_length = int(arrays["lengths"].sum())

    def _publish(self, revision: int) -> IndexView[ItemT]:
        columns, vectors = self._columns, self._vectors
        return IndexView(
            revision,
            len(self._row_of),
            self._total_length,
            self._items,
            VectorRows(vectors.units.rows, vectors.codes.rows, vectors.bounds.rows, columns["order"].rows),
            columns["alive"].rows,
            columns["confidence"].rows,
            columns["smoothed_confidence"].rows,
            columns["lengths"].rows,
            self._words.create_view(),
            self._facets.create_view(),
            self._neighbours,
            self._rules,
        )


def _encode_facets(entry: Entry[Any]) -> list[str]:
    """Return the facets of an entry."""
    return [encode_facet("", entry.section), *(encode_facet(name, value) for name, value in entry.attributes)]
