"""Statements on the chunks of one collection, and the conversion of rows."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import psycopg
from sqlalchemy import Connection, delete, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from libs.embedding.model import Float32s
from services.search.adapters.pgvector.schema import WORD_DIMENSIONS, chunk_index, chunk_term
from services.search.domain.collection import ChunkRef
from services.search.domain.fusion import Floats

MOST_WORDS = 16_000
"""The most non-zero values of a `sparsevec`. Of a chunk with more terms, the most frequent ones select it."""
INDEXABLE_DIMENSION = 4_000
"""The largest dimension of vectors in an HNSW index of `halfvec`; larger ones are always compared exactly."""
BYTES_PER_LINK, LARGEST_BUILD_MEGABYTES = 600, 2_048
_INT4_OID = 23
_COLUMNS = ("text", "text", "int8", "int4", "int4", "text[]", "bytea", "bytea", "bytea", "bytea")


class ChunkIndexState(NamedTuple):
    """The state of a collection's index: its revision, the dimension, and its numbers of chunks and terms."""

    revision: int = 0
    dimension: int = 0
    chunks: int = 0
    terms: int = 0


class ChunkRow(NamedTuple):
    """A chunk to be written."""

    ref: ChunkRef
    facets: Sequence[str]
    length: int
    frequencies: Mapping[int, int]
    saturated: Mapping[int, float]
    unit: Float32s


class PoolQuery(NamedTuple):
    """A query for a pool: at most `size` chunks by either score, of those with these facets.

    `terms` are counted in each chunk of the pool; `selecting` are those that a chunk found by its words must contain.
    With `approximate` the HNSW index finds the nearest chunks.
    """

    vector: Float32s
    terms: Sequence[int]
    weights: Sequence[float]
    selecting: Sequence[int]
    facets: Sequence[str]
    size: int
    approximate: bool


class Pool(NamedTuple):
    """The chunks of a pool with their cosines, their lengths, and the occurrences of each term, one column a term."""

    refs: Sequence[ChunkRef]
    cosines: Floats
    lengths: Floats
    occurrences: Floats


def name_table(key: str) -> str:
    """Return the table of a collection's chunks; its key consists of hexadecimal digits."""
    return f"search_chunk_{key}"


def select_state(connection: Connection, key: str, *, lock: bool = False) -> ChunkIndexState:
    """Return the state of the index; `lock` locks it until the transaction ends."""
    columns = (chunk_index.c.revision, chunk_index.c.dimension, chunk_index.c.chunks, chunk_index.c.terms)
    query = select(*columns).where(chunk_index.c.collection == key)
    if lock:
        empty = insert(chunk_index).values(collection=key, **ChunkIndexState()._asdict())
        connection.execute(empty.on_conflict_do_nothing())
        query = query.with_for_update()
    row = connection.execute(query).first()
    return ChunkIndexState(*row) if row else ChunkIndexState()


def update_state(connection: Connection, key: str, state: ChunkIndexState) -> None:
    """Store the state of a locked index."""
    connection.execute(update(chunk_index).where(chunk_index.c.collection == key).values(state._asdict()))


def create_table(connection: Connection, key: str) -> None:
    """Create the table of a collection's chunks. Its rows stay in one piece: queries read whole rows."""
    partition = "CREATE TABLE {} PARTITION OF search_chunk FOR VALUES IN ('{}') WITH (toast_tuple_target = 8160)"
    connection.execute(text(partition.format(name_table(key), key)))


def drop_index(connection: Connection, key: str) -> None:
    """Delete the chunks of a collection, its statistics and its state."""
    connection.execute(delete(chunk_index).where(chunk_index.c.collection == key))
    connection.execute(delete(chunk_term).where(chunk_term.c.collection == key))
    connection.execute(text(f"DROP TABLE IF EXISTS {name_table(key)}"))


def count_rows(connection: Connection, key: str) -> int:
    """Return the number of rows in the table of a collection's chunks."""
    query = text("SELECT count(*) FROM search_chunk WHERE collection = :key")
    return int(connection.scalar(query, {"key": key}) or 0)


_DELETE_DOCUMENTS = """
WITH gone AS (DELETE FROM {chunks} WHERE document = ANY(CAST(:documents AS text[])) RETURNING terms, length)
SELECT NULL AS term, count(*) AS chunks, coalesce(sum(length), 0) AS length FROM gone
UNION ALL SELECT term, count(*), 0 FROM gone, unnest(terms) AS term GROUP BY term
"""


def delete_documents(connection: Connection, key: str, documents: Sequence[str]) -> tuple[int, int, Counter[int]]:
    """Delete the chunks of documents; return their number, their terms in total, and the chunks with each term."""
    statement = text(_DELETE_DOCUMENTS.format(chunks=name_table(key)))
    totals, *counts = connection.execute(statement, {"documents": list(documents)})
    return totals.chunks, int(totals.length), Counter({row.term: row.chunks for row in counts})


def copy_chunks(connection: Connection, key: str, rows: Iterable[ChunkRow]) -> None:
    """Write chunks in PostgreSQL's binary format, in which vectors need no conversion to text."""
    driver: Any = connection.connection.driver_connection
    statement = f"COPY {name_table(key)} FROM STDIN (FORMAT BINARY)"
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(_COLUMNS)
            for row in rows:
                copy.write_row(_encode_row(key, row))
    except psycopg.Error as error:
        raise DBAPIError.instance(
            statement, None, error, psycopg.Error, hide_parameters=True, connection_invalidated=driver.closed
        ) from error


def _encode_row(key: str, row: ChunkRow) -> Sequence[object]:
    integers = _encode_integers(list(row.frequencies)), _encode_integers(list(row.frequencies.values()))
    vectors = _encode_words(row.saturated), _encode_vector(row.unit)
    return key, *row.ref, row.length, row.facets, *integers, *vectors


def _encode_integers(values: Sequence[int]) -> bytes:
    """Return the binary form of an array of int4."""
    elements = np.empty((len(values), 2), ">i4")
    elements[:, 0], elements[:, 1] = 4, values
    header = (1, 0, _INT4_OID, len(values), 1) if values else (0, 0, _INT4_OID)
    return struct.pack(f">{len(header)}i", *header) + elements.tobytes()


def _encode_words(weights: Mapping[int, float]) -> bytes:
    """Return the binary form of a `sparsevec`."""
    heaviest = sorted(weights.items(), key=lambda item: -item[1])[:MOST_WORDS]
    numbers, values = zip(*sorted(heaviest), strict=True) if heaviest else ((), ())
    header = struct.pack(">3i", WORD_DIMENSIONS, len(numbers), 0)
    return header + np.array(numbers, ">i4").tobytes() + np.array(values, ">f4").tobytes()


def _encode_vector(unit: Float32s) -> bytes:
    """Return the binary form of a `vector`."""
    return struct.pack(">2h", len(unit), 0) + unit.astype(">f4").tobytes()


_ADD_COUNTS = text("""
INSERT INTO search_chunk_term AS present (collection, term, chunks)
SELECT :key, term, chunks FROM unnest(CAST(:terms AS integer[]), CAST(:counts AS integer[])) AS added (term, chunks)
ON CONFLICT (collection, term) DO UPDATE SET chunks = present.chunks + excluded.chunks
""")


def add_term_counts(connection: Connection, key: str, counts: Mapping[int, int]) -> None:
    """Add to the numbers of chunks that contain a term."""
    changed = {term: count for term, count in counts.items() if count}
    if changed:
        arrays = {"terms": list(changed), "counts": list(changed.values())}
        connection.execute(_ADD_COUNTS, {"key": key, **arrays})


_EXISTS = "SELECT EXISTS (SELECT FROM {chunks} WHERE facets @> CAST(:facets AS text[]))"
_COUNT_ADMITTED = """
WITH admitted AS MATERIALIZED (SELECT terms, length FROM {chunks} WHERE facets @> CAST(:facets AS text[]))
SELECT NULL AS term, count(*) AS chunks, coalesce(sum(length), 0) AS length FROM admitted
UNION ALL SELECT term, count(*), 0 FROM unnest(CAST(:terms AS integer[])) AS term JOIN admitted ON terms @> ARRAY[term]
GROUP BY term
"""


def has_candidates(connection: Connection, key: str, facets: Sequence[str]) -> bool:
    """Return whether a chunk has all these facets."""
    return bool(connection.scalar(text(_EXISTS.format(chunks=name_table(key))), {"facets": list(facets)}))


def count_terms(connection: Connection, key: str, terms: Sequence[int]) -> dict[int, int]:
    """Return the number of chunks that contain each of these terms, without those that none contains."""
    query = select(chunk_term.c.term, chunk_term.c.chunks).where(
        chunk_term.c.collection == key, chunk_term.c.term.in_(terms)
    )
    return {term: chunks for term, chunks in connection.execute(query) if chunks > 0}


def count_candidates(
    connection: Connection, key: str, facets: Sequence[str], terms: Sequence[int]
) -> tuple[int, int, dict[int, int]]:
    """Return the number of chunks with these facets, their terms in total, and how many contain each of `terms`."""
    statement = text(_COUNT_ADMITTED.format(chunks=name_table(key)))
    totals, *counts = connection.execute(statement, {"facets": list(facets), "terms": list(terms)})
    return totals.chunks, int(totals.length), {row.term: row.chunks for row in counts}


_CONFIGURE = text("""
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
  set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', :explored, true),
  set_config('hnsw.max_scan_tuples', :scanned, true)
""")
_POOL = """
WITH near AS MATERIALIZED (
  SELECT revision, number FROM {chunks} WHERE {admitted} ORDER BY {distance} CAST(:vector AS {type}) LIMIT :size
), far AS MATERIALIZED (
  SELECT revision, number FROM {chunks} WHERE {admitted} ORDER BY {distance} CAST(:opposite AS {type}) LIMIT 1
), words AS MATERIALIZED (
  SELECT revision, number FROM {chunks} WHERE {admitted} AND terms && CAST(:selecting AS integer[])
  ORDER BY words <#> CAST(:weights AS sparsevec) LIMIT :size
)
SELECT document, revision, number, -(embedding <#> CAST(:vector AS vector)) AS cosine, length, ARRAY(
  SELECT coalesce(frequencies[array_position(terms, term)], 0)
  FROM unnest(CAST(:terms AS integer[])) WITH ORDINALITY AS query (term, position) ORDER BY position
) AS occurrences
FROM {chunks} JOIN (TABLE near UNION TABLE far UNION TABLE words) AS pool USING (revision, number)
"""
LARGEST_EF_SEARCH = 1_000


def select_pool(connection: Connection, key: str, query: PoolQuery) -> Pool:
    """Return the best chunks by cosine and by words, and the one with the lowest cosine, for min-max scaling."""
    explored = {"explored": str(min(query.size, LARGEST_EF_SEARCH)), "scanned": str(max(20_000, 4 * query.size))}
    connection.execute(_CONFIGURE, explored)
    half = f"halfvec({len(query.vector)})"
    statement = _POOL.format(
        chunks=name_table(key),
        admitted="facets @> CAST(:facets AS text[])" if query.facets else "true",
        distance=f"(embedding::{half}) <#>" if query.approximate else "embedding <#>",
        type=half if query.approximate else "vector",
    )
    words = sorted(zip(query.terms, query.weights, strict=True))
    parameters = {
        "vector": _format_vector(query.vector),
        "opposite": _format_vector(-query.vector),
        # The text of a sparse vector counts its dimensions from 1.
        "weights": f"{{{','.join(f'{term + 1}:{weight}' for term, weight in words)}}}/{WORD_DIMENSIONS}",
        "terms": list(query.terms),
        "selecting": list(query.selecting),
        "size": query.size,
        **({"facets": list(query.facets)} if query.facets else {}),
    }
    rows = connection.execute(text(statement), parameters).all()
    return Pool(
        [ChunkRef(row.document, row.revision, row.number) for row in rows],
        np.array([row.cosine for row in rows], np.float64),
        np.array([row.length for row in rows], np.float64),
        np.array([row.occurrences for row in rows], np.float64).reshape(len(rows), len(query.terms)),
    )


def _format_vector(vector: Float32s) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"


_IS_VALID = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
_TAKE_TURN = text("SELECT pg_try_advisory_lock(hashtext(:name))")


def build_neighbours(connection: Connection, key: str, state: ChunkIndexState) -> bool:
    """Build the HNSW index of a collection unless it exists or another replica is building it; return whether it did.

    The connection commits each statement. Readers and writers go on meanwhile.
    """
    table = name_table(key)
    index = f"{table}_neighbours"
    if not connection.scalar(_TAKE_TURN, {"name": index}):
        return False
    is_valid = connection.scalar(_IS_VALID, {"name": index})
    if is_valid:
        return False
    if is_valid is False:  # an interrupted build left it
        connection.execute(text(f"DROP INDEX CONCURRENTLY {index}"))
    # A build whose graph does not fit into memory takes many times as long. Parallel builds need shared memory, of
    # which containers have little.
    megabytes = min(LARGEST_BUILD_MEGABYTES, 64 + state.chunks * (2 * state.dimension + BYTES_PER_LINK) // 1_000_000)
    for setting in (f"maintenance_work_mem = '{megabytes}MB'", "max_parallel_maintenance_workers = 0"):
        connection.execute(text(f"SET {setting}"))
    operand = f"((embedding::halfvec({state.dimension})) halfvec_ip_ops)"
    connection.execute(text(f"CREATE INDEX CONCURRENTLY {index} ON {table} USING hnsw {operand}"))
    connection.execute(text(f"ANALYZE {table}"))
    return True
