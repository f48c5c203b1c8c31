"""The chunks of a collection in PostgreSQL with pgvector: one index for all replicas, on a server that users have.

PostgreSQL finds a pool by vectors and by words; the service scores the whole pool by both and fuses the scores as the
other backends do. Up to `EXACT_CHUNKS` candidates the nearest chunks are found by comparing all, beyond by an HNSW
index, which is built in the background. A batch of documents is one transaction, and so is a search.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from chassis.logging import get_logger
from libs.storage.database import Database
from libs.storage.engines import create_database_engine
from libs.storage.errors import StoreConflict, StoreFull, StoreReadOnly, StoreUnavailable, translate_error
from services.search.adapters.pgvector import queries
from services.search.adapters.pgvector.queries import ChunkIndexState, ChunkRow, Pool, PoolQuery
from services.search.adapters.pgvector.schema import MIGRATIONS, WORD_DIMENSIONS
from services.search.domain.bm25 import LUCENE, Variant
from services.search.domain.collection import ChunkRef, Collection, DocumentRevision
from services.search.domain.collection_errors import BackendUnreachable, CollectionNotFound
from services.search.domain.fusion import Floats, fuse
from services.search.domain.query import Ranking, Results, TermScore
from services.search.domain.sparse_terms import encode_attribute, hash_term, saturate_frequencies
from services.search.domain.tokenizers import Tokenizer
from services.search.domain.vectors import scale_to_unit
from services.search.usecases.rank_entries import PreparedQuery, RankEntries, RankingRequest

T = TypeVar("T")

log = get_logger(__name__)

POOL = 256
"""Best chunks by either score that are scored by both; at least four times the requested number."""
EXACT_CHUNKS = 10_000
"""Candidates up to which all vectors are compared. Beyond, the HNSW index finds the nearest ones."""
SELECTED_CHUNKS = 20_000
"""The rarest terms of a query select chunks until so many chunks contain one; the other terms only add to scores."""
LONGEST_QUERY = 256
"""Distinct terms of a query that are scored, the rarest ones."""
QUIET_SHARE = 100
"""An index counts as quiet up to this share of all revisions between two maintenances.

Documents that are written while the HNSW index is built, or once it exists, take several times as long.
"""
READER_THREADS = 4
DECIMALS = 6
"""pgvector computes in float32: scores that differ by less are equal (S-41)."""
_UNDEFINED_TABLE = "42P01"


class Pgvector:
    """A PostgreSQL database with the extension `vector`."""

    def __init__(self, location: str) -> None:
        """Raises the errors of `Database`."""
        self.database = Database(
            location, MIGRATIONS, service="search", store="chunk index", reader_threads=READER_THREADS
        )
        self._build: Any = None

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, which sees one state of the database. Raises `BackendUnreachable`."""
        return await self._call(self.database.read(work))

    async def write(self, work: Callable[[Connection], T], key: str) -> T:
        """Return the result of `work` once it is on disk. Raises `BackendUnreachable`."""
        return await self._call(self.database.write(work, key))

    async def build_neighbours(self, key: str, state: ChunkIndexState) -> bool:
        """Build the HNSW index of a collection if it is missing; return whether it was built.

        Raises `BackendUnreachable`.
        """
        return await self._call(asyncio.to_thread(self._build_neighbours, key, state))

    async def close(self) -> None:
        """Cancel a running build, and close the database."""
        if self._build is not None:
            self._build.cancel()
        await self.database.close()

    def _build_neighbours(self, key: str, state: ChunkIndexState) -> bool:
        # A connection of its own, whose end releases its lock and its settings.
        engine = create_database_engine(self.database.url, "hansei-search", writes=True)
        try:
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                self._build = connection.connection.driver_connection
                return queries.build_neighbours(connection, key, state)
        except Exception as error:
            raise translate_error(error, self.database.name) from error
        finally:
            self._build = None
            engine.dispose()

    async def _call(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except (StoreUnavailable, StoreFull, StoreReadOnly, StoreConflict) as error:
            raise BackendUnreachable("PGVECTOR", f"{self.database.name} ({error.reason})") from error


class PgvectorChunks:
    """Implements `ChunkIndex` in a partition of the table of chunks."""

    def __init__(
        self,
        collection: Collection,
        pgvector: Pgvector,
        tokenize: Tokenizer,
        variant: Variant,
        exact_chunks: int = EXACT_CHUNKS,
    ) -> None:
        self._collection = collection.name
        self._key = collection.key
        self._pgvector = pgvector
        self._tokenize = tokenize
        self._variant = variant
        self._exact_chunks = exact_chunks
        # The average length changes with each chunk. The stored weights, which only select the pool, need a constant.
        self._usual_length = collection.chunking.tokens
        self._state = ChunkIndexState()
        self._maintained_revision = 0

    @property
    def revision(self) -> int:
        """Return the collection's revision that the index has; 0 for none."""
        return self._state.revision

    async def open(self) -> None:
        """Read the state, with the true number of chunks. Raises `BackendUnreachable`."""

        def read_state(connection: Connection) -> ChunkIndexState:
            state = queries.select_state(connection, self._key)
            return state._replace(chunks=queries.count_rows(connection, self._key)) if state.dimension else state

        self._state = await self._pgvector.read(read_state)

    async def count_chunks(self) -> int:
        """Return the number of chunks at `revision`."""
        return self._state.chunks

    async def apply(self, document_revisions: Sequence[DocumentRevision]) -> None:
        """Apply these revisions in one transaction, without those that another replica has applied.

        Raises `BackendUnreachable`.
        """
        former_revision = self._state.revision

        def create_rows() -> dict[int, list[ChunkRow]]:
            return {document.revision: self._create_rows(document) for document in document_revisions}

        rows = await asyncio.to_thread(create_rows)

        def write_chunks(connection: Connection) -> ChunkIndexState:
            state = queries.select_state(connection, self._key, lock=True)
            if state.revision < former_revision:
                return state  # another replica has cleared the index: its follower begins there
            pending = [document for document in document_revisions if document.revision > state.revision]
            return self._replace_chunks(connection, state, pending, rows) if pending else state

        self._state = await self._pgvector.write(write_chunks, self._key)

    async def search(self, rank: RankEntries, request: RankingRequest) -> Ranking[ChunkRef]:
        """See `ChunkIndex`. Raises `EmbeddingFailed`, `WrongVector`, `BackendUnreachable`, `CollectionNotFound`."""
        state = self._state
        facets = [encode_attribute(name, value) for name, value in request.query.attributes]
        is_empty = not state.chunks
        if facets and not is_empty:
            is_empty = not await self._read(lambda connection, _: queries.has_candidates(connection, self._key, facets))
        if is_empty:
            empty: list[Ranking[ChunkRef]] = await rank(None, [request])
            return empty[0]
        query = await rank.prepare(request, state.dimension)
        search = _PoolSearch(self._key, query, facets, self._variant, self._exact_chunks)
        return await self._read(lambda connection, current: search.run(connection, current, request))

    async def clear(self) -> None:
        """Delete all chunks. Raises `BackendUnreachable`."""
        await self._pgvector.write(lambda connection: queries.drop_index(connection, self._key), self._key)
        self._state = ChunkIndexState()

    async def save_snapshot(self) -> None:
        """Do nothing: PostgreSQL stores the chunks itself."""

    async def maintain(self) -> None:
        """Build the HNSW index of a large collection, but not during a load. Raises `BackendUnreachable`."""
        state = self._state
        added = state.revision - self._maintained_revision
        self._maintained_revision = state.revision
        is_quiet = added <= state.revision // QUIET_SHARE
        is_large = state.chunks > self._exact_chunks and state.dimension <= queries.INDEXABLE_DIMENSION
        if is_quiet and is_large and await self._pgvector.build_neighbours(self._key, state):
            log.info("neighbour index built", collection=self._collection, chunks=state.chunks)

    async def _read(self, work: Callable[[Connection, ChunkIndexState], T]) -> T:
        """Return the result of `work` on an index that is at least as new as the state of this object."""

        def read_current(connection: Connection) -> tuple[ChunkIndexState, T | None]:
            state = queries.select_state(connection, self._key)
            if state.revision < self._state.revision:
                return state, None
            try:
                return state, work(connection, state)
            except ProgrammingError as error:
                if getattr(error.orig, "sqlstate", "") == _UNDEFINED_TABLE:
                    return ChunkIndexState(), None
                raise

        state, result = await self._pgvector.read(read_current)
        if result is None:
            # Deleted, cut over, or cleared by another replica: the caller looks for the collection again.
            self._state = state
            raise CollectionNotFound(self._collection)
        return result

    def _replace_chunks(
        self,
        connection: Connection,
        state: ChunkIndexState,
        pending: Sequence[DocumentRevision],
        rows: dict[int, list[ChunkRow]],
    ) -> ChunkIndexState:
        written = [row for document in pending for row in rows[document.revision]]
        deleted, deleted_terms, counts = 0, 0, Counter[int]()
        if state.dimension:
            documents = [document.document_id for document in pending]
            deleted, deleted_terms, counts = queries.delete_documents(connection, self._key, documents)
        elif written:
            queries.create_table(connection, self._key)
        added = Counter(term for row in written for term in row.frequencies)
        added.subtract(counts)
        queries.copy_chunks(connection, self._key, written)
        queries.add_term_counts(connection, self._key, added)
        current = ChunkIndexState(
            pending[-1].revision,
            len(written[0].unit) if written else state.dimension,
            state.chunks + len(written) - deleted,
            state.terms + sum(row.length for row in written) - deleted_terms,
        )
        queries.update_state(connection, self._key, current)
        return current

    def _create_rows(self, document_revision: DocumentRevision) -> list[ChunkRow]:
        if document_revision.vectors is None:
            return []
        units = scale_to_unit(document_revision.vectors.astype(np.float64)).astype(np.float32)
        facets = [encode_attribute(name, value) for name, value in document_revision.metadata]
        rows: list[ChunkRow] = []
        for number, (span, unit) in enumerate(zip(document_revision.spans, units, strict=True)):
            terms = self._tokenize(document_revision.text[slice(*span)])
            saturated = saturate_frequencies(terms, self._variant, self._usual_length)
            ref = ChunkRef(document_revision.document_id, document_revision.revision, number)
            words = {term % WORD_DIMENSIONS: weight for term, weight in saturated.items()}
            rows.append(ChunkRow(ref, facets, len(terms), Counter(map(_hash_term, terms)), words, unit))
        return rows


class _PoolSearch:
    """One query on one collection."""

    def __init__(
        self, key: str, query: PreparedQuery, facets: Sequence[str], variant: Variant, exact_chunks: int
    ) -> None:
        self._key = key
        self._query = query
        self._facets = facets
        self._variant = variant
        self._exact_chunks = exact_chunks

    def run(self, connection: Connection, state: ChunkIndexState, request: RankingRequest) -> Ranking[ChunkRef]:
        """Return the best of the candidates in this state of the index."""
        names = {_hash_term(term): term for term in dict.fromkeys(self._query.terms)}
        candidates, length, counts = self._count(connection, state, list(names))
        # The rarest terms first.
        terms = sorted(counts, key=lambda term: counts[term])[:LONGEST_QUERY]
        repetitions = Counter(map(_hash_term, self._query.terms))
        weights = np.array(
            [LUCENE.compute_idf(candidates, counts[term]) * self._variant.gain * repetitions[term] for term in terms]
        )
        size = max(POOL, 4 * request.query.top_k)
        pool = queries.select_pool(
            connection,
            self._key,
            PoolQuery(
                self._query.vector,
                terms,
                weights.tolist(),
                _choose_selecting(terms, counts),
                self._facets,
                size,
                approximate=candidates > self._exact_chunks,
            ),
        )
        parts = self._score_terms(pool, weights, length / candidates if candidates else 0.0)
        by_revision = sorted(range(len(pool.refs)), key=lambda row: pool.refs[row][1:])
        bm25 = np.round(parts.sum(axis=1), DECIMALS)
        cosines = np.round(pool.cosines, DECIMALS)
        order = np.argsort(np.array(by_revision, np.int64))
        ranked = fuse(cosines, bm25, order, self._query.fusion, request.query.top_k)
        best = ranked.rows.tolist()
        matched = [self._explain(parts[row], terms, names) for row in best] if request.explain else ()
        results = Results([pool.refs[row] for row in best], ranked.scores, matched)
        return Ranking(results, candidates, self._query.fusion.alpha, candidates > len(pool.refs))

    def _count(
        self, connection: Connection, state: ChunkIndexState, terms: Sequence[int]
    ) -> tuple[int, int, dict[int, int]]:
        """Return the number of candidates, their terms in total, and how many contain each term (S-13)."""
        if self._facets:
            return queries.count_candidates(connection, self._key, self._facets, terms)
        return state.chunks, state.terms, queries.count_terms(connection, self._key, terms)

    def _score_terms(self, pool: Pool, weights: Floats, average_length: float) -> Floats:
        """Return the part of each term in the BM25 of each chunk, shape (chunks, terms)."""
        variant = self._variant
        norms = variant.k1 * (1.0 - variant.b + variant.b * pool.lengths / (average_length or 1.0))
        parts: Floats = weights * pool.occurrences / (pool.occurrences + norms[:, np.newaxis])
        return parts

    def _explain(self, parts: Floats, terms: Sequence[int], names: dict[int, str]) -> tuple[TermScore, ...]:
        """Return the terms that a chunk contains, in the order of the query."""
        scores = dict(zip(terms, parts.tolist(), strict=True))
        return tuple(TermScore(name, scores[term]) for term, name in names.items() if scores.get(term))


def _choose_selecting(terms: Sequence[int], counts: dict[int, int]) -> list[int]:
    """Return the rarest of these terms, which are sorted by their counts: as many as select enough chunks."""
    selecting: list[int] = []
    selected = 0
    for term in terms:
        if selected >= SELECTED_CHUNKS:
            break
        selecting.append(term)
        selected += counts[term]
    return selecting


def _hash_term(term: str) -> int:
    return hash_term(term) % WORD_DIMENSIONS
