"""The writer's side of a hybrid index: entries come, change and go, and every change is one new view.

Rows are only ever appended. Changing an entry writes a new row and notes in which version the old one died; a view of
an earlier version still finds the old row alive. So one writer and any number of readers work on the same arrays
without waiting for each other, both kinds of scores always belong to the same version, and a change costs the size of
the change. When more rows are dead than alive the living ones move to new arrays.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from services.search.domain.bm25 import OKAPI, Variant
from services.search.domain.clusters import SAMPLE_A_CENTROID, Clusters, centroids_of, nearest_centroids
from services.search.domain.columns import Column
from services.search.domain.entry import Entry
from services.search.domain.errors import EmbeddingFailed
from services.search.domain.facets import Facets, facets_of
from services.search.domain.frozen import FrozenIndex
from services.search.domain.items import Items
from services.search.domain.kernels import Float32s, Floats, Int64s, Kernels, NumpyKernels
from services.search.domain.query import ItemT
from services.search.domain.term_table import TermTable
from services.search.domain.tokenizers import Tokenizer, terms_of, whitespace
from services.search.domain.vectors import Vectors
from services.search.domain.view import ALIVE, NO_PRESELECTION, IndexView, Preselection, Rows, Rules

# Dead rows are tolerated up to as many as are alive, and always up to this many.
TOLERATED_DEAD_ROWS = 1024


class HybridIndex(Generic[ItemT]):
    """An index of entries with vectors of `dimension`; `view` is its newest state."""

    def __init__(
        self,
        dimension: int,
        tokenize: Tokenizer = whitespace,
        variant: Variant = OKAPI,
        kernels: Kernels | None = None,
        preselection: Preselection = NO_PRESELECTION,
    ) -> None:
        self.dimension = dimension
        self._clusters: Clusters | None = None
        self._clustered = 0
        self._compactions = 0
        self._tokenize = tokenize
        self._rules = Rules(variant, kernels or NumpyKernels(), preselection)
        self._writing = threading.Lock()
        self._row_of: dict[str, int] = {}
        self._ids: list[str] = []
        self._rows = Rows[ItemT](
            items=Items(),
            order=Column(np.int64),
            confidence=Column(np.float64),
            lengths=Column(np.int32),
            died=Column(np.int64),
            vectors=Vectors(dimension, self._rules.kernels.store_vectors),
            terms=TermTable(self._rules.kernels.append_postings),
            facets=Facets(),
        )
        self._holding = np.zeros(0, np.int64)
        self._term_counts: Counter[int] = Counter()
        self._total_length = 0
        self._next_place = 0
        self._version = 0
        self.view = self._publish(0)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._row_of

    def get(self, entry_id: str) -> ItemT | None:
        """The item of that id, if it is there."""
        row = self._row_of.get(entry_id)
        return None if row is None else self._rows.items[row]

    def holds(self, entry_id: str, item: ItemT) -> bool:
        """Whether the entry is there with just this item."""
        row = self._row_of.get(entry_id)
        return row is not None and self._rows.items.is_at(row, item)

    def ids(self) -> list[str]:
        """Ids of the entries, in no particular order."""
        return list(self._row_of)

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
        given = self._checked_shape(len(entries), vectors)
        terms = [self._terms_of(entry) for entry in entries]
        with self._writing:
            before = len(self._ids)
            if not self._rows.vectors.append(given):
                raise EmbeddingFailed("a vector with a value that is not finite")
            self._version += 1
            for entry_id in deleted:
                self._bury(entry_id)
            for entry, held in zip(entries, terms, strict=True):
                self._add(entry, held)
            if self._clusters is not None:
                self._clusters.append(self._rows.vectors.since(before))
            if order is not None:
                self._reorder(order)
            if len(self._ids) - len(self._row_of) > max(TOLERATED_DEAD_ROWS, len(self._row_of)):
                self._compact()
            self.view = self._publish(revision)
            return self.view

    def cluster(self, rng: np.random.Generator | None = None) -> bool:
        """Group the rows by nearness if there are so many that queries are to preselect; whether that was done.

        It takes seconds to minutes; readers and writers go on meanwhile. It is done again when the index has grown
        fourfold.
        """
        view, compactions = self.view, self._compactions
        if view.live <= max(self._rules.preselection.above, 4 * self._clustered):
            return False
        rng = rng or np.random.default_rng(0)
        count = min(view.live, 4 * int(view.live**0.5))
        living = np.flatnonzero(view.cut.died > view.version)
        sample = np.sort(rng.choice(living, min(len(living), SAMPLE_A_CENTROID * count), replace=False))
        centroids = centroids_of(view.cut.vectors[sample], count, rng)
        numbers = nearest_centroids(centroids, view.cut.vectors)
        with self._writing:
            if self._compactions != compactions:
                return False
            since = nearest_centroids(centroids, self._rows.vectors.since(view.rows))
            self._clusters = Clusters(centroids, np.concatenate([numbers, since]))
            self._clustered = view.live
            self.view = self._publish(self.view.revision)
        return True

    def _checked_shape(self, count: int, vectors: Floats | Float32s | None) -> Floats | Float32s:
        if vectors is None or not count:
            vectors = np.zeros((0, self.dimension), np.float32)
        if vectors.shape != (count, self.dimension):
            raise EmbeddingFailed(f"vectors of shape {vectors.shape} for an index of {(count, self.dimension)}")
        return vectors

    def _terms_of(self, entry: Entry[ItemT]) -> list[str]:
        entry.check()
        return terms_of(entry.text, entry.keywords, self._tokenize)

    def _add(self, entry: Entry[ItemT], terms: Sequence[str]) -> None:
        """Write the entry's row, all but its vector."""
        rows = self._rows
        replaced = self._bury(entry.id)
        if replaced is None:
            place = self._next_place
            self._next_place += 1
        else:
            place = int(rows.order.array[replaced])
        row = self._row_of[entry.id] = len(self._ids)
        self._ids.append(entry.id)
        rows.items.append(entry.item)
        rows.order.push(place)
        rows.confidence.push(entry.confidence)
        rows.lengths.push(len(terms))
        rows.died.push(ALIVE)
        numbers = rows.terms.append(_counted(terms), len(terms))
        rows.facets.append(row, facets_of(entry.section, entry.attributes))
        self._total_length += len(terms)
        if self._rules.variant.floored:
            self._count_terms(numbers, +1)

    def _reorder(self, order: Sequence[str]) -> None:
        """Number the living rows anew; ids that `order` leaves out come last, as they stood."""
        first = {entry_id: place for place, entry_id in reversed(list(enumerate(order)))}
        places = self._rows.order.rows.copy()
        for entry_id, row in self._row_of.items():
            places[row] = first.get(entry_id, len(order) + places[row])
        # Another column: earlier views keep their order.
        self._rows = self._rows._replace(order=Column.of(places))
        self._next_place = len(order) + self._next_place

    def _bury(self, entry_id: str) -> int | None:
        """Let the entry's row die in this version; None if there is none."""
        row = self._row_of.pop(entry_id, None)
        if row is None:
            return None
        self._rows.died.array[row] = self._version
        self._total_length -= int(self._rows.lengths.array[row])
        if self._rules.variant.floored:
            self._count_terms(self._rows.terms.of_row(row), -1)
        return row

    def _count_terms(self, numbers: NDArray[np.int32], change: int) -> None:
        """Keep the number of terms that exactly n entries hold, for each n: the floor of idf needs it (S-22)."""
        if len(self._rows.terms.ids) > len(self._holding):
            self._holding = np.concatenate([self._holding, np.zeros(len(self._rows.terms.ids), np.int64)])
        before = self._holding[numbers]
        self._holding[numbers] += change
        counts = self._term_counts
        for held in before.tolist():
            if held:
                counts[held] -= 1
                if not counts[held]:
                    del counts[held]
            if held + change:
                counts[held + change] += 1

    def _publish(self, revision: int) -> IndexView[ItemT]:
        return IndexView(
            self._version,
            revision,
            len(self._ids),
            len(self._row_of),
            self._total_length,
            self._rows,
            self._rows.terms.lists(),
            self._clusters.view() if self._clusters else None,
            dict(self._term_counts) if self._rules.variant.floored else {},
            self._rules,
        )

    def frozen(self) -> FrozenIndex[ItemT]:
        """The newest state as plain arrays. Writers wait meanwhile, readers do not."""
        with self._writing:
            return self._frozen()

    @classmethod
    def thawed(
        cls,
        frozen: FrozenIndex[ItemT],
        tokenize: Tokenizer = whitespace,
        variant: Variant = OKAPI,
        kernels: Kernels | None = None,
        preselection: Preselection = NO_PRESELECTION,
    ) -> HybridIndex[ItemT]:
        """An index that goes on where `frozen` was taken. `tokenize` must be the one that it was made with."""
        index = cls(frozen.vectors.shape[1], tokenize, variant, kernels, preselection)
        index._take(frozen)
        index.view = index._publish(frozen.revision)
        return index

    def _compact(self) -> None:
        """Move the living rows to new arrays; earlier views keep the old ones."""
        self._take(self._frozen())
        self._compactions += 1

    def _living(self) -> Int64s:
        """The living rows in the order of their entries."""
        living = np.fromiter(self._row_of.values(), np.int64, len(self._row_of))
        return living[np.argsort(self._rows.order.array[living], kind="stable")]

    def _frozen(self) -> FrozenIndex[ItemT]:
        living = self._living()
        rows = living.tolist()
        vectors, coarse = self._rows.vectors.first(len(self._ids))
        return FrozenIndex(
            revision=self.view.revision,
            ids=[self._ids[row] for row in rows],
            items=self._rows.items.of(rows),
            confidence=self._rows.confidence.array[living],
            lengths=self._rows.lengths.array[living],
            vectors=vectors[living],
            coarse=coarse.of(living),
            terms=self._rows.terms.frozen(living),
            facets=self._rows.facets.frozen(living, len(self._ids)),
            clusters=self._clusters.frozen(living) if self._clusters else None,
        )

    def _take(self, frozen: FrozenIndex[ItemT]) -> None:
        """Hold these rows and no others."""
        count = len(frozen.ids)
        self._ids = list(frozen.ids)
        self._row_of = {entry_id: row for row, entry_id in enumerate(self._ids)}
        self._rows = Rows(
            items=frozen.items,
            order=Column.of(np.arange(count, dtype=np.int64)),
            confidence=Column.of(frozen.confidence),
            lengths=Column.of(frozen.lengths),
            died=Column.of(np.full(count, ALIVE, np.int64)),
            vectors=Vectors.of(frozen.vectors, frozen.coarse, self._rules.kernels.store_vectors),
            terms=TermTable.of(frozen.terms, self._rules.kernels.append_postings),
            facets=Facets.of(frozen.facets),
        )
        self._next_place = max(self._next_place, count)
        if (clusters := frozen.clusters) is not None:
            self._clusters = Clusters(clusters.centroids, clusters.numbers)
            self._clustered = self._clustered or count
        self._total_length = int(frozen.lengths.sum())
        if self._rules.variant.floored:
            self._holding = self._rows.terms.holding()
            held = np.bincount(self._holding)
            self._term_counts = Counter({n: terms for n, terms in enumerate(held.tolist()) if n and terms})


def _counted(terms: Sequence[str]) -> dict[str, int]:
    """How often each term occurs. For the few terms of an entry a Counter takes longer to make than to fill."""
    counts = dict.fromkeys(terms, 1)
    if len(counts) < len(terms):
        counts = dict.fromkeys(counts, 0)
        for term in terms:
            counts[term] += 1
    return counts
