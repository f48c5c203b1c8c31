"""A collection whose texts another model embeds anew: its successor, row by row, until it takes its place.

The successor is a collection of its own under a name that no request can have. Its documents keep the revisions they
have in the collection, so it is as far as the revision it was copied up to, and what searches found stays what it was.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from services.search.adapters.collection_rows import (
    advance,
    collection_named,
    delete_collection,
    in_collection,
    packed_vectors,
    rows_there,
)
from services.search.adapters.schema import collection as collections
from services.search.adapters.schema import document as documents
from services.search.domain.collection import Collection, Writing
from services.search.domain.collection_errors import CollectionNotFound

Insert = Callable[..., Any]


def begin(connection: Connection, collection: Collection, model: str) -> Collection:
    """The successor by `model`; one that another model began is given up. Raises `CollectionNotFound`."""
    there = _locked(connection, collection)
    successor = _standing(connection, there)
    if successor is not None and successor.model == model:
        return successor
    abandon(connection, there)
    row = connection.execute(select(collections).where(collections.c.number == there.number)).one()._asdict()
    del row["number"]
    fresh = {"key": secrets.token_hex(16), "name": _name(there), "model": model}
    empty = {"dimension": 0, "revision": 0, "documents": 0, "chunks": 0}
    connection.execute(insert(collections), {**row, **fresh, **empty})
    return collection_named(connection, _name(there))


def copy(
    connection: Connection, upsert: Insert, collection: Collection, successor: Collection, writings: Sequence[Writing]
) -> Collection:
    """The successor with these writings, which hold its vectors; what it has already, from another replica, stays.

    A document that was written again meanwhile is left out: it comes once more. Raises `CollectionNotFound`.
    """
    there = _locked(connection, successor)
    newer = {writing.document_id: writing for writing in writings if writing.revision > there.revision}
    if not newer:
        return there
    standing = connection.execute(in_collection(select(documents), collection).where(documents.c.id.in_(list(newer))))
    rows = [
        {**row._asdict(), "collection": there.number, "vectors": _vectors_of(newer[row.id])}
        for row in standing
        if row.revision == newer[row.id].revision
    ]
    before = [row for row in rows_there(connection, there.number, [row["id"] for row in rows]) if row.present]
    if rows:
        statement = upsert(documents)
        changed = {column.name: statement.excluded[column.name] for column in documents.c if not column.primary_key}
        connection.execute(statement.on_conflict_do_update(index_elements=["collection", "id"], set_=changed), rows)
    present = [row for row in rows if row["text"] is not None]
    advance(
        connection,
        there,
        writings[-1].revision - there.revision,
        len(present) - len(before),
        sum(row["chunks"] for row in present) - sum(row.chunks for row in before),
        next((w.vectors.shape[1] for w in newer.values() if w.vectors is not None), there.dimension),
    )
    return collection_named(connection, there.name)


def succeed(connection: Connection, collection: Collection, successor: Collection) -> bool:
    """Whether the successor held as much, and has taken the collection's place and name. `CollectionNotFound`."""
    there, ready = _locked(connection, collection), _locked(connection, successor)
    if ready.revision != there.revision:
        return False
    delete_collection(connection, there)
    connection.execute(update(collections).where(collections.c.number == ready.number).values(name=there.name))
    return True


def abandon(connection: Connection, collection: Collection) -> None:
    """Give up the successor, if there is one."""
    if (successor := _standing(connection, collection)) is not None:
        delete_collection(connection, successor)


def _locked(connection: Connection, collection: Collection) -> Collection:
    there = collection_named(connection, collection.name, lock=True)
    if there.number != collection.number:
        raise CollectionNotFound(collection.name)
    return there


def _standing(connection: Connection, collection: Collection) -> Collection | None:
    try:
        return collection_named(connection, _name(collection), lock=True)
    except CollectionNotFound:
        return None


def _name(collection: Collection) -> str:
    """It sorts behind all names, where no page of a list looks."""
    return f"~{collection.key}"


def _vectors_of(writing: Writing) -> bytes:
    return b"" if writing.vectors is None else packed_vectors(writing.vectors)
