"""Delete the vectors of texts that no playbook holds any more, a page of rows at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Column, Connection, Row, delete, select, tuple_

from libs.embedding.model import hash_content
from libs.storage.database import Database
from services.curator.adapters.sql import schema
from services.curator.domain.review import PendingChange, PendingState

Keys = npt.NDArray[np.uint64]
"""The first eight bytes of content hashes, which take less memory. A vector stays if its key is that of a used one."""

PAGE_ROWS = 1_000

_HASH_COLUMNS = (schema.embeddings.c.model, schema.embeddings.c.content_hash)
_SLOT_COLUMNS = (schema.bullet.c.dataset, schema.bullet.c.slot)


async def delete_unused_embeddings(database: Database, pause: float = 0.0) -> int:
    """Delete the vectors whose text is in no playbook and in no waiting change, and return their number.

    Other calls go on meanwhile: after each page of rows this sleeps `pause` times as long as the page took. A vector
    that is stored meanwhile stays until the next time.
    """
    pages = [_shorten(row.content_hash for row in rows) async for rows in _read_pages(database, _HASH_COLUMNS, pause)]
    unused = np.unique(np.concatenate(pages)) if pages else np.empty(0, np.uint64)
    is_used = np.zeros(len(unused), dtype=bool)
    for content in await database.read(_select_waiting_contents):
        is_used[_find(unused, [hash_content(content)])] = True
    async for rows in _read_pages(database, _SLOT_COLUMNS, pause, schema.bullet.c.body):
        bullets = [row.body.bullet for row in rows]
        texts = [text for bullet in bullets for text in (bullet.content, bullet.searchable_text)]
        is_used[_find(unused, map(hash_content, texts))] = True
    unused = unused[~is_used]
    deleted = 0
    async for rows in _read_pages(database, _HASH_COLUMNS, pause):
        hashes = [row.content_hash for row in rows if len(_find(unused, [row.content_hash]))]
        if hashes:
            deleted += await database.write(partial(_delete, hashes=hashes))
    return deleted


async def _read_pages(
    database: Database, key: Sequence[Column[Any]], pause: float, *columns: Column[Any]
) -> AsyncIterator[Sequence[Row[Any]]]:
    """Yield the key and the columns of all rows in the order of the key, a page at a time."""
    query = select(*key, *columns).order_by(*key).limit(PAGE_ROWS)
    page = query
    while True:
        began = time.monotonic()
        rows = await database.read(partial(_fetch, query=page))
        if not rows:
            return
        yield rows
        page = query.where(tuple_(*key) > tuple(rows[-1])[: len(key)])
        await asyncio.sleep(pause * (time.monotonic() - began))


def _fetch(connection: Connection, query: Any) -> Sequence[Row[Any]]:
    return connection.execute(query).all()


def _select_waiting_contents(connection: Connection) -> list[str]:
    waiting = select(schema.pending.c.body).where(schema.pending.c.state == PendingState.WAITING.value)
    changes: Iterable[PendingChange] = connection.execute(waiting).scalars()
    return [change.proposal.delta.content for change in changes]


def _delete(connection: Connection, hashes: Sequence[bytes]) -> int:
    """Delete the vectors of these content hashes, of all models, and return their number."""
    return connection.execute(delete(schema.embeddings).where(schema.embeddings.c.content_hash.in_(hashes))).rowcount


def _shorten(hashes: Iterable[bytes]) -> Keys:
    return np.frombuffer(b"".join(digest[:8] for digest in hashes), np.uint64)


def _find(sorted_keys: Keys, hashes: Iterable[bytes]) -> npt.NDArray[np.intp]:
    """Return the positions of those hashes whose key is among `sorted_keys`."""
    keys = _shorten(hashes)
    positions = np.searchsorted(sorted_keys, keys)
    is_inside = positions < len(sorted_keys)
    positions, keys = positions[is_inside], keys[is_inside]
    found: npt.NDArray[np.intp] = positions[sorted_keys[positions] == keys]
    return found
