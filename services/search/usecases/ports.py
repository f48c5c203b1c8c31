"""The indexes and stores that the use cases need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from libs.embedding.model import Float32s
from services.search.domain.chunking import Chunking
from services.search.domain.collection import (
    Backend,
    ChunkRef,
    Collection,
    CutDocument,
    Passages,
    Stored,
    Summary,
    Writing,
)
from services.search.domain.entry import Entry
from services.search.domain.fusion import Fusion
from services.search.domain.query import Filter, ItemT, Ranking
from services.search.domain.snapshot import IndexState
from services.search.domain.vectors import Floats


class SearchView(Protocol[ItemT]):
    """An index at one moment. It never changes, and may be searched by many threads."""

    @property
    def revision(self) -> int:
        """Return the number that the writer gave this state."""
        ...

    @property
    def rows(self) -> int:
        """Return of how many rows a query computes scores."""
        ...

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        ...

    def count_candidates(self, admitted: Filter) -> int:
        """Return how many entries the filter lets pass (S-09, S-10)."""
        ...

    def search(
        self,
        terms: Sequence[str],
        query: Float32s,
        admitted: Filter,
        fusion: Fusion,
        count: int,
        explain: bool = False,
    ) -> Ranking[ItemT]:
        """Return the `count` best entries for the query's terms and its vector (unit length or zero, shape (d,)).

        With `explain` each result also says which terms it holds.
        """
        ...


class SearchIndex(Protocol[ItemT]):
    """An index that one writer changes while many readers search `view`, its newest state."""

    @property
    def view(self) -> SearchView[ItemT]:
        """Return the newest state."""
        ...

    def __len__(self) -> int: ...

    def __contains__(self, entry_id: str) -> bool: ...

    def holds(self, entry_id: str, item: ItemT) -> bool:
        """Return whether the entry is there with just this item."""
        ...

    def apply(
        self,
        entries: Sequence[Entry[ItemT]] = (),
        vectors: Floats | Float32s | None = None,
        deleted: Sequence[str] = (),
        revision: int = 0,
        order: Sequence[str] | None = None,
    ) -> SearchView[ItemT]:
        """Delete, then add or replace, and show all of it at once as `revision`.

        ``vectors`` are the entries' embeddings, finite, shape (len(entries), dimension), of any length. Ids that are
        not there are deleted without complaint. A new entry comes last, a replaced one keeps its place, unless
        ``order`` names the ids in the order that ties follow from now on. Raises `EmbeddingFailed` for other vectors
        and `InvalidEntry`; then nothing has changed.
        """
        ...

    def build_neighbours(self) -> bool:
        """Prepare for queries over as many entries as there are; return whether anything was done."""
        ...

    def export_state(self) -> IndexState[ItemT]:
        """Return the newest state as plain arrays."""
        ...


@dataclass(frozen=True, slots=True)
class IndexFactory(Generic[ItemT]):
    """Makes indexes: with vectors of a dimension, or where one was left."""

    create: Callable[[int], SearchIndex[ItemT]]
    restore: Callable[[IndexState[ItemT]], SearchIndex[ItemT]]


class CollectionStore(Protocol):
    """Collections in a database. Every method raises the errors of `libs.storage.errors`.

    Those that take a name raise `CollectionNotFound`.
    """

    async def create(self, name: str, backend: Backend, chunking: Chunking, model: str) -> Collection:
        """Make a collection, or return the one of that name."""
        ...

    async def get(self, name: str) -> Collection:
        """The collection as it stands."""
        ...

    async def page(self, after: str, limit: int, prefix: str = "") -> list[Collection]:
        """Collections whose name sorts behind `after` and begins with `prefix`, by name."""
        ...

    async def drop(self, name: str) -> Collection:
        """Delete a collection and all its documents; what it was."""
        ...

    async def digests(self, collection: Collection, ids: Sequence[str]) -> dict[str, bytes]:
        """The digest of each of these documents that is there."""
        ...

    async def write(self, collection: Collection, documents: Sequence[CutDocument]) -> Stored:
        """Add or replace all of these documents, each id once, or none of them. Those of the same digest stay."""
        ...

    async def delete(self, name: str, ids: Sequence[str]) -> tuple[int, Collection]:
        """Delete these documents; how many there were, and what is left."""
        ...

    async def read(self, name: str, document_id: str) -> tuple[Summary, str]:
        """A document and its text. Raises `DocumentNotFound`."""
        ...

    async def summaries(self, name: str, after: str, limit: int) -> list[Summary]:
        """Documents whose id sorts behind `after`, by id."""
        ...

    async def writings(self, collection: Collection, after: int) -> list[Writing]:
        """Some of the documents written or deleted after revision `after`, oldest first; none if there are no more."""
        ...

    async def next_generation(self, collection: Collection, model: str) -> Collection:
        """Return the next generation of the collection, embedded by `model`, which no request finds by its name."""
        ...

    async def copy_documents(
        self, collection: Collection, generation: Collection, writings: Sequence[Writing]
    ) -> Collection:
        """Copy writings of the collection, with new vectors, to its next generation, and return that.

        Raises `CollectionNotFound`, also when the cut-over is done or was abandoned meanwhile.
        """
        ...

    async def cut_over(self, collection: Collection, generation: Collection) -> bool:
        """Replace the collection by its next generation if that has the collection's revision.

        False if it has not yet. Raises `CollectionNotFound` if the collection is not there any more.
        """
        ...

    async def passages(self, collection: Collection, refs: Sequence[ChunkRef]) -> Passages:
        """The text of these chunks, as far as their documents are still what they were."""
        ...
