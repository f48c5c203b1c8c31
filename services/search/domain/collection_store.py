"""Where collections and their documents are kept, as search needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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


class CollectionStore(Protocol):
    """Collections in a database. Every method raises `StoreUnavailable`, `StoreFull` or `StoreCorrupt`.

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

    async def successor(self, collection: Collection, model: str) -> Collection:
        """Where the collection is embedded anew by `model`, as far as it is. Nobody finds it by its name."""
        ...

    async def copy(self, collection: Collection, successor: Collection, writings: Sequence[Writing]) -> Collection:
        """Give the successor these writings of the collection, with new vectors, under their revisions; how far it is.

        Raises `CollectionNotFound`, also when the successor has succeeded or was given up meanwhile.
        """
        ...

    async def succeed(self, collection: Collection, successor: Collection) -> bool:
        """Put the successor in the collection's place, at once, if it stands at the collection's revision.

        False if it does not yet. Raises `CollectionNotFound` if the collection is not there any more.
        """
        ...

    async def passages(self, collection: Collection, refs: Sequence[ChunkRef]) -> Passages:
        """The text of these chunks, as far as their documents are still what they were."""
        ...
