"""The cut-over of a collection to the vectors of another model: documents are copied to its next generation.

The next generation is a collection of its own under a name that no request can have. Its documents keep their
revisions, so its revision is the one it was copied up to, and results of searches stay valid.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sqlalchemy import Connection, insert, select, update

from libs.storage.engines import insert_for
from services.search.adapters.sql.queries import (
    delete_collection,
    encode_vectors,
    select_collection,
    select_documents,
    update_counts,
    where_collection,
)
from services.search.adapters.sql.schema import collection as collections
from services.search.adapters.sql.schema import document as documents
from services.search.domain.collection import Collection, Writing
from services.search.domain.collection_errors import CollectionNotFound


def begin_generation(connection: Connection, collection: Collection, model: str) -> Collection:
    """Return the next generation by `model`; one of another model is abandoned. Raises CollectionNotFound."""
    there = _lock(connection, collection)
    generation = _find_generation(connection, there)
    if generation is not None and generation.model == model:
        return generation
    abandon_generation(connection, there)
    row = connection.execute(select(collections).where(collections.c.number == there.number)).one()._asdict()
    del row["number"]
    fresh = {"key": secrets.token_hex(16), "name": _generation_name(there), "model": model}
    empty = {"dimension": 0, "revision": 0, "documents": 0, "chunks": 0}
    connection.execute(insert(collections), {**row, **fresh, **empty})
    return select_collection(connection, _generation_name(there))


def copy_documents(
    connection: Connection, collection: Collection, generation: Collection, writings: Sequence[Writing]
) -> Collection:
    """Copy writings, which hold the new vectors; documents that another replica copied stay. Return the generation.

    A document that was written again meanwhile is left out: it comes once more. Raises CollectionNotFound.
    """
    there = _lock(connection, generation)
    newer = {writing.document_id: writing for writing in writings if writing.revision > there.revision}
    if not newer:
        return there
    query = where_collection(select(documents), collection).where(documents.c.id.in_(list(newer)))
    standing = connection.execute(query)
    rows = [
        {**row._asdict(), "collection": there.number, "vectors": _vectors(newer[row.id])}
        for row in standing
        if row.revision == newer[row.id].revision
    ]
    before = [row for row in select_documents(connection, there.number, [row["id"] for row in rows]) if row.present]
    if rows:
        statement = insert_for(connection.dialect.name)(documents)
        changed = {column.name: statement.excluded[column.name] for column in documents.c if not column.primary_key}
        connection.execute(statement.on_conflict_do_update(index_elements=["collection", "id"], set_=changed), rows)
    present = [row for row in rows if row["text"] is not None]
    update_counts(
        connection,
        there,
        writings[-1].revision - there.revision,
        len(present) - len(before),
        sum(row["chunks"] for row in present) - sum(row.chunks for row in before),
        next((w.vectors.shape[1] for w in newer.values() if w.vectors is not None), there.dimension),
    )
    return select_collection(connection, there.name)


def cut_over(connection: Connection, collection: Collection, generation: Collection) -> bool:
    """Replace the collection by its next generation; False if that is not complete. Raises CollectionNotFound."""
    there, ready = _lock(connection, collection), _lock(connection, generation)
    if ready.revision != there.revision:
        return False
    delete_collection(connection, there)
    connection.execute(update(collections).where(collections.c.number == ready.number).values(name=there.name))
    return True


def abandon_generation(connection: Connection, collection: Collection) -> None:
    """Delete the next generation, if there is one."""
    if (generation := _find_generation(connection, collection)) is not None:
        delete_collection(connection, generation)


def _lock(connection: Connection, collection: Collection) -> Collection:
    there = select_collection(connection, collection.name, lock=True)
    if there.number != collection.number:
        raise CollectionNotFound(collection.name)
    return there


def _find_generation(connection: Connection, collection: Collection) -> Collection | None:
    try:
        return select_collection(connection, _generation_name(collection), lock=True)
    except CollectionNotFound:
        return None


def _generation_name(collection: Collection) -> str:
    """Return the name of the next generation, which sorts after all names that a list returns."""
    return f"~{collection.key}"


def _vectors(writing: Writing) -> bytes:
    return b"" if writing.vectors is None else encode_vectors(writing.vectors)
