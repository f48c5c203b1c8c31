"""The writer's side of a hybrid index: entries come, change and go, and every change is one new view.

Rows are only ever appended. Changing an entry writes a new row and marks the old one dead in a copy of the marks, so
one writer and any number of readers work on the same arrays without waiting for each other, both kinds of scores always
belong to the same version, and a change costs little more than its size. When more rows are dead than alive the living
ones move to new arrays.
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
from services.search.domain.neighbours import EXTENDED_SHARE, Neighbours
from services.search.domain.postings import Postings
from services.search.domain.query import ItemT
from services.search.domain.snapshot import IndexState
from services.search.domain.tokenizers import Tokenizer, terms_of, whitespace
from services.search.domain.vectors import Float32s, Floats, Vectors, are_finite
from services.search.domain.view import IndexView, LoopsInUse, Rules, facet

# Dead rows are tolerated up to as many as are alive, and always up to this many.
TOLERATED_DEAD_ROWS = 1024
NEIGHBOURS = "neighbours."
"""How the names of the arrays of neighbours begin in a state."""

RestoreNeighbours = Callable[[Mapping[str, NDArray[Any]]], Neighbours]
DEFAULT_RULES = Rules(OKAPI, LoopsInUse())


class HybridIndex(Generic[ItemT]):
    """An index of entries with vectors of `dimension`; `view` is its newest state."""

    def __init__(self, dimension: int, tokenize: Tokenizer = whitespace, rules: Rules = DEFAULT_RULES) -> None:
        self._tokenize = tokenize
        self._rules = rules
        self._writing = threading.Lock()
        self._ids: list[str] = []
        self._row_of: dict[str, int] = {}
        self._items: Items[ItemT] = Items()
        self._vectors = Vectors.create(dimension)
        self._columns = {
            "order": Column(np.int64),
            "alive": Column(np.bool_),
            "confidence": Column(np.float64),
            "lengths": Column(np.int32),
        }
        self._words, self._facets = Postings(), Postings()
        self._neighbours: Neighbours | None = None
        self._compactions = 0
        self._next_place = 0
        self._total_length = 0
        self.view = self._publish(0)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._row_of

    def holds(self, entry_id: str, item: ItemT) -> bool:
        """Return whether the entry is there with just this item."""
        row = self._row_of.get(entry_id)
        return row is not None and self._items.is_at(row, item)

    def apply(
        self,
        entries: Sequence[Entry[ItemT]] = (),
        vectors: Floats | Float32s | None = None,
        deleted: Sequence[str] = (),
        revision: int = 0,
        order: Sequence[str] | None = None,
    ) -> IndexView[ItemT]:
        """Delete, then add or replace, and show all of it at once as `revision`.

        ``vectors`` are the entries' embeddings, finite, shape (len(entries), dimension), of any length. Ids that are
        not there are deleted without complaint. A new entry comes last, a replaced one keeps its place, unless
        ``order`` names the ids in the order that ties follow from now on. Raises `EmbeddingFailed` for other vectors
        and `InvalidEntry`; then nothing has changed.
        """
        given = self._checked_vectors(len(entries), vectors)
        terms = [self._terms_of(entry) for entry in entries]
        with self._writing:
            dead = [row for entry_id in deleted if (row := self._row_of.pop(entry_id, None)) is not None]
            dead += self._append(entries, given, terms)
            if dead:
                self._bury(dead)
            if order is not None:
                self._reorder(order)
            if len(self._ids) - len(self._row_of) > max(TOLERATED_DEAD_ROWS, len(self._row_of)):
                self._compact()
            self.view = self._publish(revision)
            return self.view

    def build_neighbours(self) -> bool:
        """Prepare for queries that preselect, if there are so many rows; return whether anything was done.

        It takes seconds to minutes; readers and writers go on meanwhile. Rows that were added since are taken up when
        they are enough, and neighbours are trained anew when the index has outgrown them.
        """
        view, compactions, build = self.view, self._compactions, self._rules.build_neighbours
        if build is None or view.live <= self._rules.exact_limit:
            return False
        known = view.neighbours
        if known is None or known.is_outgrown_by(view.live):
            neighbours = build(view.vectors.units, np.flatnonzero(view.alive), view.rows)
        elif (view.rows - known.covered) * EXTENDED_SHARE > view.rows:
            neighbours = known.extend(view.vectors.units[known.covered :])
        else:
            return False
        with self._writing:
            if self._compactions != compactions:
                return False
            self._neighbours = neighbours
            self.view = self._publish(self.view.revision)
        return True

    def export_state(self) -> IndexState[ItemT]:
        """Return the newest state as plain arrays. Writers wait meanwhile, readers do not."""
        with self._writing:
            return self._export()

    @classmethod
    def restore(
        cls,
        state: IndexState[ItemT],
        tokenize: Tokenizer = whitespace,
        rules: Rules = DEFAULT_RULES,
        restore_neighbours: RestoreNeighbours | None = None,
    ) -> HybridIndex[ItemT]:
        """Return an index that goes on where `state` was taken. `tokenize` must be the one that it was made with."""
        index = cls(state.arrays["units"].shape[1], tokenize, rules)
        index._take(state)
        of_neighbours = {
            name.removeprefix(NEIGHBOURS): array for name, array in state.arrays.items() if name.startswith(NEIGHBOURS)
        }
        if of_neighbours and restore_neighbours is not None:
            index._neighbours = restore_neighbours(of_neighbours)
        index.view = index._publish(state.revision)
        return index

    def _checked_vectors(self, count: int, vectors: Floats | Float32s | None) -> Floats | Float32s:
        width = self._vectors.units.rows.shape[1]
        if vectors is None or not count:
            vectors = np.zeros((0, width), np.float32)
        if vectors.shape != (count, width):
            raise EmbeddingFailed(f"vectors of shape {vectors.shape} for an index of {(count, width)}")
        if not are_finite(vectors):
            raise EmbeddingFailed("a vector with a value that is not finite")
        return vectors

    def _terms_of(self, entry: Entry[ItemT]) -> list[str]:
        entry.check()
        return terms_of(entry.text, entry.keywords, self._tokenize)

    def _append(
        self, entries: Sequence[Entry[ItemT]], vectors: Floats | Float32s, terms: Sequence[Sequence[str]]
    ) -> list[int]:
        """Write a row for each entry; return the rows that these replace."""
        if not entries:
            return []
        first, places = len(self._ids), self._columns["order"].rows
        order: list[int] = []
        replaced: list[int] = []
        for row, entry in enumerate(entries, first):
            before = self._row_of.get(entry.id)
            if before is None:
                order.append(self._next_place)
                self._next_place += 1
            else:
                order.append(order[before - first] if before >= first else int(places[before]))
                replaced.append(before)
            self._row_of[entry.id] = row
        lengths = [len(each) for each in terms]
        self._ids.extend(entry.id for entry in entries)
        self._items.extend(entry.item for entry in entries)
        self._columns["order"].append(order)
        self._columns["alive"].append(np.ones(len(entries), np.bool_))
        self._columns["confidence"].append([entry.confidence for entry in entries])
        self._columns["lengths"].append(lengths)
        self._vectors.append(vectors)
        self._words.append(first, terms)
        self._facets.append(first, [_facets_of(entry) for entry in entries])
        self._total_length += sum(lengths)
        return replaced

    def _bury(self, dead: Sequence[int]) -> None:
        """Mark rows dead, in another column: earlier views go on seeing them alive."""
        alive = self._columns["alive"].rows.copy()
        alive[dead] = False
        self._columns["alive"] = Column.from_array(alive)
        self._total_length -= int(self._columns["lengths"].rows[dead].sum())

    def _reorder(self, order: Sequence[str]) -> None:
        """Number the living rows anew; ids that `order` leaves out come last, as they stood."""
        first = {entry_id: place for place, entry_id in reversed(list(enumerate(order)))}
        places = self._columns["order"].rows.copy()
        for entry_id, row in self._row_of.items():
            places[row] = first.get(entry_id, len(order) + places[row])
        self._columns["order"] = Column.from_array(places)
        self._next_place = len(order) + self._next_place

    def _compact(self) -> None:
        """Move the living rows to new arrays; earlier views keep the old ones."""
        neighbours = self._neighbours and self._neighbours.renumber(self._columns["alive"].rows)
        self._take(self._export())
        self._neighbours = neighbours
        self._compactions += 1

    def _export(self) -> IndexState[ItemT]:
        """Return the living rows, in their order."""
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
        terms, of_words = self._words.export(mask, "words")
        facets, of_facets = self._facets.export(mask, "facets")
        arrays |= of_words | of_facets
        if neighbours is not None:
            arrays |= {NEIGHBOURS + name: array for name, array in neighbours.export().items()}
        return IndexState(self.view.revision, list(ids), self._items.select(rows), terms, facets, arrays)

    def _take(self, state: IndexState[ItemT]) -> None:
        """Hold these rows and no others."""
        arrays = state.arrays
        self._ids, self._items = list(state.ids), state.items
        self._row_of = {entry_id: row for row, entry_id in enumerate(self._ids)}
        self._columns = {name: Column.from_array(arrays[name]) for name in ("order", "confidence", "lengths")}
        self._columns["alive"] = Column.from_array(np.ones(len(self._ids), np.bool_))
        self._vectors = Vectors(*(Column.from_array(arrays[name]) for name in ("units", "codes", "bounds")))
        self._words = Postings.restore(state.terms, arrays, "words")
        self._facets = Postings.restore(state.facets, arrays, "facets")
        self._next_place = int(arrays["order"].max(initial=-1)) + 1
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
            columns["lengths"].rows,
            self._words.view(),
            self._facets.view(),
            self._neighbours,
            self._rules,
        )


def _facets_of(entry: Entry[Any]) -> list[str]:
    """Return the terms under which filters find an entry."""
    return [facet("", entry.section), *(facet(name, value) for name, value in entry.attributes)]
