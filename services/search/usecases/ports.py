"""The indexes and stores that the use cases need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from libs.embedding.model import Float32s
from services.search.domain.chunking import Chunking
from services.search.domain.collection import (
    Backend,
    ChunkedDocument,
    ChunkRef,
    Collection,
    DocumentRevision,
    DocumentSummary,
    Passages,
    WriteResult,
)
from services.search.domain.entry import Entry
from services.search.domain.fusion import Fusion
from services.search.domain.query import CandidateFilter, ItemT, Ranking
from services.search.domain.snapshot import IndexState
from services.search.domain.vectors import Floats


class SearchView(Protocol[ItemT]):
    """An immutable state of an index. Many threads may search it."""

    @property
    def revision(self) -> int:
        """Return the number that the writer gave this state."""

    @property
    def rows(self) -> int:
        """Return the number of rows whose scores a query computes."""

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""

    def count_candidates(self, admitted: CandidateFilter) -> int:
        """Return the number of entries that pass the filter (S-09, S-10)."""

    def search(
        self,
        terms: Sequence[str],
        query: Float32s,
        admitted: CandidateFilter,
        fusion: Fusion,
        count: int,
        explain: bool = False,
    ) -> Ranking[ItemT]:
        """Return the `count` best entries for the query's terms and its vector (unit length or zero, shape (d,)).

        With `explain` each result lists the query's terms that it contains.
        """


class SearchIndex(Protocol[ItemT]):
    """An index that one writer changes while many readers search `view`, its newest state."""

    @property
    def view(self) -> SearchView[ItemT]:
        """Return the newest state."""

    def __len__(self) -> int: ...

    def __contains__(self, entry_id: str) -> bool: ...

    def contains_item(self, entry_id: str, item: ItemT) -> bool:
        """Return whether the entry exists and has an equal item."""

    def apply(
        self,
        entries: Sequence[Entry[ItemT]] = (),
        vectors: Floats | Float32s | None = None,
        deleted: Sequence[str] = (),
        revision: int = 0,
        order: Sequence[str] | None = None,
    ) -> SearchView[ItemT]:
        """Delete entries, then add or replace others, and publish the result as one state, `revision`.

        ``vectors`` are the entries' embeddings, finite, shape (len(entries), dimension), of any length. Unknown ids in
        ``deleted`` are ignored. A new entry comes last and a replaced one keeps its position, unless ``order`` lists
        the ids in the order that ties follow from now on. Raises `EmbeddingFailed` for other vectors and
        `InvalidEntry`; then nothing has changed.
        """

    def build_neighbours(self) -> bool:
        """Build the neighbour index if there are enough entries for it; return whether it was built."""

    @property
    def allocated_bytes(self) -> int:
        """Return the bytes that the index takes in memory, at least by estimate."""

    def export_state(self) -> IndexState[ItemT]:
        """Return the newest state as plain arrays."""


@dataclass(frozen=True, slots=True)
class IndexFactory(Generic[ItemT]):
    """Creates indexes: empty ones with vectors of a dimension, or from an exported state."""

    create: Callable[[int], SearchIndex[ItemT]]
    restore: Callable[[IndexState[ItemT]], SearchIndex[ItemT]]


class CollectionStore(Protocol):
    """Collections in a database. All methods raise the errors of `libs.storage.errors`.

    Methods that take a name raise `CollectionNotFound`.
    """

    async def create(self, name: str, backend: Backend, chunking: Chunking, model: str) -> Collection:
        """Create a collection, or return the one of that name."""

    async def get(self, name: str) -> Collection:
        """Return a collection."""

    async def list_collections(self, after: str, limit: int, prefix: str = "") -> list[Collection]:
        """Return collections whose name sorts after `after` and begins with `prefix`, by name."""

    async def drop(self, name: str) -> Collection:
        """Delete a collection and all its documents; return it."""

    async def read_digests(self, collection: Collection, ids: Sequence[str]) -> dict[str, bytes]:
        """Return the digests of those of these documents that exist."""

    async def write_documents(self, collection: Collection, documents: Sequence[ChunkedDocument]) -> WriteResult:
        """Add or replace all of these documents, each id once, or none. Those with an equal digest stay."""

    async def delete_documents(self, name: str, ids: Sequence[str]) -> tuple[int, Collection]:
        """Delete documents; return their number and the collection."""

    async def read_document(self, name: str, document_id: str) -> tuple[DocumentSummary, str]:
        """Return a document and its text. Raises `DocumentNotFound`."""

    async def list_documents(self, name: str, after: str, limit: int) -> list[DocumentSummary]:
        """Return documents whose id sorts after `after`, by id."""

    async def read_revisions(self, collection: Collection, after: int) -> list[DocumentRevision]:
        """Return some of the documents written or deleted after revision `after`, oldest first; none at the end."""

    async def read_passages(self, collection: Collection, refs: Sequence[ChunkRef]) -> Passages:
        """Return the texts of the chunks; omit chunks whose documents have changed since they were indexed."""

    async def begin_generation(self, collection: Collection, model: str) -> Collection:
        """Return the next generation of the collection, embedded by `model`; no request finds it by its name."""

    async def copy_documents(
        self, collection: Collection, generation: Collection, document_revisions: Sequence[DocumentRevision]
    ) -> Collection:
        """Copy revisions of the collection, with new vectors, to its next generation; return that.

        Raises `CollectionNotFound`, also after the cut-over and when the generation was abandoned.
        """

    async def cut_over(self, collection: Collection, generation: Collection) -> bool:
        """Replace the collection by its next generation; return False if that has not reached its revision.

        Raises `CollectionNotFound` when the collection was deleted.
        """
