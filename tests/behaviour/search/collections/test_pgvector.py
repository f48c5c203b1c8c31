"""The backend PGVECTOR: the scores of the built-in index, its neighbour index, and a server that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

import chassis
from chassis.errors import InvalidArgument
from hansei.search.v1 import collection_pb2
from libs.embedding.terms import tokenize_mixed
from services.search.adapters.pgvector.chunks import Pgvector, PgvectorChunks
from services.search.domain.bm25 import LUCENE
from services.search.domain.chunking import Chunking, TextSpan
from services.search.domain.collection import Backend, ChunkRef, Collection, DocumentRevision
from services.search.domain.collection_errors import BackendMissing, BackendUnreachable, CollectionNotFound
from services.search.domain.fusion import Fusion
from services.search.domain.query import Ranking, SearchQuery
from services.search.usecases.rank_entries import PreparedQuery, QueryVector, RankingRequest
from tests.behaviour.search.collections.service import HYBRID, PGVECTOR, RunningSearch, chunk, direction, document
from tests.support.postgres_server import PostgresServer, pgvector_server

CREATED = datetime(2026, 1, 2, tzinfo=UTC)
COLLECTION = Collection(1, "c0ffee", "c", Backend.PGVECTOR, Chunking(100, 10), "model", CREATED)
WORDS = ["retry", "call", "deadline", "clock", "再試行", "lease", "token", "page", "cache", "writer", "reader", "index"]


@pytest.fixture(params=[PGVECTOR], ids=["pgvector"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def create_database(tmp_path: Path) -> Callable[[], str]:
    """Return a function that creates a SQLite file for the documents."""
    return lambda: str(tmp_path / "documents.db")


def describe(passages: Sequence[collection_pb2.Passage]) -> list[Any]:
    scores = ("raw_cosine", "raw_bm25", "vector_score", "bm25_score", "combined_score")
    return [
        (
            passage.document_id,
            [pytest.approx(getattr(passage, score), abs=2e-5) for score in scores],
            [(term.term, pytest.approx(term.score, abs=1e-5)) for term in passage.terms],
        )
        for passage in passages
    ]


async def test_scores_and_ranks_are_those_of_the_built_in_index(running: Any) -> None:
    rng = np.random.default_rng(1)
    documents = [
        document(f"d{n}", " ".join(rng.choice(WORDS, rng.integers(3, 30))), parity=str(n % 2), third=str(n % 3))
        for n in range(120)
    ]
    # Only the built-in index looks for the best sentence.
    async with running(search_sentence_weight=0) as searching:
        for name, chosen in (("hybrid", HYBRID), ("pgvector", PGVECTOR)):
            await RunningSearch(searching.stub, chosen).create(name)
            await searching.put(*documents, collection=name)
            await searching.put(document("d7", "retry retry 再試行"), document("d8", "page"), collection=name)
        for text in ("retry the call", "再試行 deadline deadline", "nothing of it", ""):
            for metadata in ({}, {"parity": "1"}, {"parity": "0", "third": "2"}):
                expected, found = [
                    await searching.search(text, name, metadata=metadata, top_k=50, explain=True)
                    for name in ("hybrid", "pgvector")
                ]
                assert describe(expected.results) == describe(found.results)
                assert found.approximate == expected.approximate is False


async def test_a_server_that_is_away_is_named_and_its_documents_are_indexed_later(
    running: Any, lone_pgvector: PostgresServer
) -> None:
    location = lone_pgvector.database().replace("hansei@", "hansei:pg-secret@")
    async with running(search_pgvector=location) as searching:
        await searching.create()
        await searching.put(document("retry"))
        lone_pgvector.stop()
        for call in (searching.put(document("deadline")), searching.search("deadline")):
            with pytest.raises(
                BackendUnreachable, match=r"the backend PGVECTOR does not answer: .*chunk index"
            ) as away:
                await call
            assert away.value.retry_after
            assert "pg-secret" not in str(away.value)
        assert (await searching.collection()).documents == 2
        lone_pgvector.start()
        async with asyncio.timeout(30):
            while True:
                try:
                    assert sorted(await searching.find_ids("deadline")) == ["deadline", "retry"]
                    break
                except BackendUnreachable:
                    await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def lone_pgvector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Run a server with pgvector that a test may stop."""
    with pgvector_server(tmp_path_factory.mktemp("pgvector")) as server:
        yield server


async def test_the_start_names_a_database_that_cannot_hold_vectors(
    running: Any, pgvector_location: str, postgres: PostgresServer
) -> None:
    with psycopg.connect(pgvector_location, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
    for location, message in (
        (postgres.database(), 'lacks the extension "vector": install pgvector 0.8 or newer'),
        (pgvector_location, 'has the extension "vector" 0.7.4, which is too old: install pgvector 0.8'),
        ("documents.db", "must be the URL of a PostgreSQL database"),
    ):
        with pytest.raises(chassis.BadSetting, match=f"HANSEI_SEARCH_PGVECTOR: .*{message}"):
            async with running(search_pgvector=location):
                pass


async def test_vectors_that_postgresql_cannot_store_are_refused(searching: RunningSearch) -> None:
    long = chunk(0, 4, direction(16_001, 1.0))
    with pytest.raises(
        InvalidArgument, match="must have at most 16000 dimensions with the backend PGVECTOR, not 16001"
    ):
        await searching.put(document("a", "text", [long]))
    assert (await searching.collection()).revision == 0


async def test_a_backend_that_is_not_configured_is_named(running: Any) -> None:
    async with running(search_pgvector="") as searching:
        with pytest.raises(BackendMissing, match="the backend PGVECTOR is not configured: set HANSEI_SEARCH_PGVECTOR"):
            await searching.create()


class GivenVectors:
    """Takes the vector of a request as it is."""

    async def __call__(self, view: Any, requests: Sequence[RankingRequest]) -> list[Ranking[Any]]:
        return [Ranking() for _ in requests]

    async def prepare(self, request: RankingRequest, dimension: int) -> PreparedQuery:
        assert request.vector is not None
        return PreparedQuery(tokenize_mixed(request.query.query_text), request.vector.values, Fusion(1.0))


def embed_texts(texts: Sequence[str], first: int = 1) -> list[DocumentRevision]:
    """Return documents of one chunk, numbered from `first`, with random vectors of dimension 16."""
    vectors = np.random.default_rng(first).normal(size=(len(texts), 1, 16)).astype(np.float32)
    return [
        DocumentRevision(f"d{n}", n, (), text, [TextSpan(0, len(text))], vector)
        for n, (text, vector) in enumerate(zip(texts, vectors, strict=True), first)
    ]


async def find_nearest(chunks: PgvectorChunks, vector: Any) -> Ranking[ChunkRef]:
    unit = QueryVector("model", (vector / np.linalg.norm(vector)).astype(np.float32))
    rank: Any = GivenVectors()
    return await chunks.search(rank, RankingRequest(SearchQuery("text", min_confidence=0.0), vector=unit))


@pytest.fixture
async def pgvector(pgvector_location: str) -> AsyncIterator[Pgvector]:
    pgvector = Pgvector(pgvector_location)
    await pgvector.database.open()
    yield pgvector
    await pgvector.close()


def create_chunks(pgvector: Pgvector) -> PgvectorChunks:
    return PgvectorChunks(COLLECTION, pgvector, tokenize_mixed, LUCENE, exact_chunks=100)


async def test_a_large_collection_gets_a_neighbour_index_which_a_broken_build_does_not_prevent(
    pgvector: Pgvector, pgvector_location: str
) -> None:
    chunks = create_chunks(pgvector)
    documents = embed_texts([f"text {n}" for n in range(1500)])
    await chunks.apply(documents)

    def find_index(connection: psycopg.Connection) -> Any:
        query = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('search_chunk_c0ffee_neighbours')"
        return connection.execute(query).fetchone()

    with psycopg.connect(pgvector_location, autocommit=True) as connection:
        await chunks.maintain()
        assert find_index(connection) is None  # during a load
        await chunks.maintain()
        assert find_index(connection) == (True,)
        connection.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'search_chunk_c0ffee_neighbours'::regclass"
        )
        await chunks.maintain()
        assert find_index(connection) == (True,)
    units = np.concatenate([entry.vectors for entry in documents if entry.vectors is not None])
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    found = 0
    for query in np.random.default_rng(3).normal(size=(20, 16)):
        ranking = await find_nearest(chunks, query)
        assert (ranking.candidates, ranking.preselected) == (1500, True)
        nearest = {f"d{row + 1}" for row in np.argsort(units @ query)[-10:]}
        found += len(nearest & {ref.document_id for ref in ranking.results.items})
    assert found >= 190


async def test_documents_that_fail_halfway_leave_nothing(pgvector: Pgvector, pgvector_location: str) -> None:
    chunks = create_chunks(pgvector)
    await chunks.apply(embed_texts(["one", "two"]))
    with psycopg.connect(pgvector_location, autocommit=True) as connection:
        counts = "SELECT (SELECT count(*) FROM search_chunk), (SELECT sum(chunks) FROM search_chunk_term)"
        before = connection.execute(counts).fetchone()
        connection.execute("ALTER TABLE search_chunk_c0ffee ADD CONSTRAINT full_disk CHECK (document <> 'd4')")
        with pytest.raises(chassis.errors.HanseiError, match="chunk index"):
            await chunks.apply(embed_texts(["three", "four", "five"], first=3))
        assert (chunks.revision, connection.execute(counts).fetchone()) == (2, before)
        connection.execute("ALTER TABLE search_chunk_c0ffee DROP CONSTRAINT full_disk")
    await chunks.apply(embed_texts(["three", "four", "five"], first=3))
    assert (chunks.revision, await chunks.count_chunks()) == (5, 5)


async def test_replicas_apply_a_document_once_and_notice_that_another_has_cleared_the_index(
    pgvector: Pgvector,
) -> None:
    first, second = create_chunks(pgvector), create_chunks(pgvector)
    documents = embed_texts(["one", "two", "three"])
    await asyncio.gather(first.apply(documents[:2]), second.apply(documents))
    await first.apply(documents[2:])
    for chunks in (first, second, reopened := create_chunks(pgvector)):
        await chunks.open()
        assert (chunks.revision, await chunks.count_chunks()) == (3, 3)
    await reopened.clear()
    with pytest.raises(CollectionNotFound):
        await find_nearest(first, np.ones(16))
    assert first.revision == 0
    await second.apply(embed_texts(["four"], first=4))
    assert second.revision == 0  # its follower begins again
    await second.apply([*documents, *embed_texts(["four"], first=4)])
    await first.open()
    assert (first.revision, await first.count_chunks()) == (4, 4)
