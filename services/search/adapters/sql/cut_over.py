"""The cut-over of a collection to the vectors of another model: documents are copied to its next generation.

The next generation is a collection of its own under a name that no request can have. Its documents keep their
revisions, so its revision is that of its newest copy, and results of searches stay valid.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sqlalchemy import Connection, insert, select, update

from services.search.adapters.sql.queries import (
    delete_collection,
    encode_vectors,
    filter_collection,
    lock_collection,
    select_collection,
    select_documents,
    update_counts,
    upsert_documents,
)
from services.search.adapters.sql.schema import collection as collections
from services.search.adapters.sql.schema import document as documents
from services.search.domain.collection import Collection, DocumentRevision
from services.search.domain.collection_errors import CollectionNotFound


def begin_generation(connection: Connection, collection: Collection, model: str) -> Collection:
    """Return the next generation by `model`; one of another model is abandoned. Raises `CollectionNotFound`."""
    locked = lock_collection(connection, collection)
    generation = _find_generation(connection, locked)
    if generation is not None and generation.model == model:
        return generation
    abandon_generation(connection, locked)
    row = connection.execute(select(collections).where(collections.c.number == locked.number)).one()._asdict()
    del row["number"]
    name = _choose_generation_name(locked)
    empty = {"dimension": 0, "revision": 0, "documents": 0, "chunks": 0}
    connection.execute(
        insert(collections), {**row, "key": secrets.token_hex(16), "name": name, "model": model, **empty}
    )
    return select_collection(connection, name)


def copy_documents(
    connection: Connection,
    collection: Collection,
    generation: Collection,
    document_revisions: Sequence[DocumentRevision],
) -> Collection:
    """Copy revisions with new vectors, except those that another replica copied; return the generation.

    A document that has been written again is left out: its newer revision follows. Raises `CollectionNotFound`.
    """
    locked = lock_collection(connection, generation)
    newer = {document.document_id: document for document in document_revisions if document.revision > locked.revision}
    if not newer:
        return locked
    query = filter_collection(select(documents), collection).where(documents.c.id.in_(list(newer)))
    rows = [
        {**row._asdict(), "collection": locked.number, "vectors": _encode_new_vectors(newer[row.id])}
        for row in connection.execute(query)
        if row.revision == newer[row.id].revision
    ]
    replaced = [row for row in select_documents(connection, locked.number, [row["id"] for row in rows]) if row.present]
    if rows:
        upsert_documents(connection, rows)
    present = [row for row in rows if row["text"] is not None]
    update_counts(
        connection,
        locked,
        document_revisions[-1].revision - locked.revision,
        len(present) - len(replaced),
        sum(row["chunks"] for row in present) - sum(row.chunks for row in replaced),
        next((document.vectors.shape[1] for document in newer.values() if document.vectors is not None), 0)
        or locked.dimension,
    )
    return select_collection(connection, locked.name)


def cut_over(connection: Connection, collection: Collection, generation: Collection) -> bool:
    """Replace the collection by its next generation; False if that is not complete. Raises `CollectionNotFound`."""
    locked, complete = lock_collection(connection, collection), lock_collection(connection, generation)
    if complete.revision != locked.revision:
        return False
    delete_collection(connection, locked)
    connection.execute(update(collections).where(collections.c.number == complete.number).values(name=locked.name))
    return True


def abandon_generation(connection: Connection, collection: Collection) -> None:
    """Delete the next generation, if there is one."""
    if (generation := _find_generation(connection, collection)) is not None:
        delete_collection(connection, generation)


def _find_generation(connection: Connection, collection: Collection) -> Collection | None:
    try:
        return select_collection(connection, _choose_generation_name(collection), lock=True)
    except CollectionNotFound:
        return None


def _choose_generation_name(collection: Collection) -> str:
    """Return the name of the next generation, which sorts after all names that a list returns."""
    return f"~{collection.key}"


def _encode_new_vectors(document_revision: DocumentRevision) -> bytes:
    return b"" if document_revision.vectors is None else encode_vectors(document_revision.vectors)
