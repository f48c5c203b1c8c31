"""The chunks of a collection in Qdrant, for collections beyond one machine's memory.

Each chunk is a point with two vectors: `dense`, and `bm25`, a sparse vector whose values are the saturated frequencies
of its terms and whose idf Qdrant applies. Qdrant finds a pool by each of the two and scores the whole pool by both;
scaling and fusion are those of the service. Points name their document's revision, so that an outdated point is never
taken for a chunk.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from chassis.server.cpu import CpuPool
from services.search.domain.bm25 import Variant
from services.search.domain.collection import ChunkRef, Collection, DocumentRevision
from services.search.domain.collection_errors import BackendUnreachable, CollectionNotFound
from services.search.domain.fusion import Floats, fuse
from services.search.domain.query import Attributes, Ranking, Results, TermScore
from services.search.domain.sparse_terms import encode_attribute, hash_term, saturate_frequencies
from services.search.domain.tokenizers import Tokenizer
from services.search.domain.vectors import scale_to_unit
from services.search.usecases.rank_entries import PreparedQuery, RankEntries, RankingRequest

T = TypeVar("T")

DENSE, SPARSE = "dense", "bm25"
POOL = 256
"""Best chunks by either vector that are scored by both; at least four times the requested number."""
POINTS_AT_ONCE = 256
EXPLAINED_TERMS = 64
DECIMALS = 6
"""Qdrant computes in float32: scores that differ by less are equal (S-41)."""

# A point without vectors that holds the revision of the collection.
_HEAD = str(uuid.UUID(int=0))
_NAMES = uuid.UUID("8d1f2c5e-3a47-4c0b-9a51-6f1f0f7f4e11")
_ALL_CHUNKS = models.Filter(must_not=[models.HasIdCondition(has_id=[_HEAD])])


class Qdrant:
    """A Qdrant server at a URL, or the library's own engine in a folder. Calls run in threads: the client blocks."""

    def __init__(self, location: str, api_key: str = "") -> None:
        self.is_server = "://" in location
        self._location = location
        self._api_key = api_key
        self._client: QdrantClient | None = None
        self._connecting = threading.Lock()
        # The library's engine has no locks.
        self._pool = CpuPool("search-qdrant", workers=8 if self.is_server else 1, queue=256)

    async def run(self, job: Callable[[QdrantClient], T]) -> T:
        """Return the result of `job`. Raises `BackendUnreachable`."""
        try:
            return await self._pool.run(lambda: job(self._connect()))
        except (ApiException, OSError) as error:
            raise BackendUnreachable("QDRANT", type(error).__name__) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._pool.close()
        if self._client is not None:
            self._client.close()

    def _connect(self) -> QdrantClient:
        with self._connecting:
            if self._client is None:
                options: dict[str, Any] = {"path": self._location}
                if self.is_server:
                    options = {"url": self._location, "api_key": self._api_key or None}
                self._client = QdrantClient(**options, check_compatibility=False, force_disable_check_same_thread=True)
            return self._client


class QdrantChunks:
    """Implements `ChunkIndex` in a collection of Qdrant's own."""

    def __init__(self, collection: Collection, qdrant: Qdrant, tokenize: Tokenizer, variant: Variant) -> None:
        self._collection = collection.name
        self._name = f"hansei_{collection.key}"
        self._dimension = collection.dimension
        self._qdrant = qdrant
        self._tokenize = tokenize
        self._variant = variant
        # The average length changes with each chunk; stored BM25 values need a constant one.
        self._average_length = collection.chunking.tokens
        self._revision = 0

    @property
    def revision(self) -> int:
        """Return the collection's revision that the points have; 0 for none."""
        return self._revision

    async def open(self) -> None:
        """Read the revision of the points. Raises `BackendUnreachable`."""

        def read_revision(client: QdrantClient) -> int:
            if not client.collection_exists(self._name):
                return 0
            head = client.retrieve(self._name, [_HEAD])
            return int((head[0].payload or {})["revision"]) if head else 0

        self._revision = await self._qdrant.run(read_revision)

    async def count_chunks(self) -> int:
        """Return the number of chunks. Raises `BackendUnreachable`."""
        return await self._qdrant.run(lambda client: self._count(client, _ALL_CHUNKS))

    async def apply(self, document_revisions: Sequence[DocumentRevision]) -> None:
        """Apply these revisions; repeating that changes nothing. Raises `BackendUnreachable`."""
        dimensions = {document.vectors.shape[1] for document in document_revisions if document.vectors is not None}
        self._dimension = max(dimensions, default=self._dimension)
        if self._dimension:
            await self._qdrant.run(lambda client: self._replace_points(client, document_revisions))
        self._revision = document_revisions[-1].revision

    async def search(self, rank: RankEntries, request: RankingRequest) -> Ranking[ChunkRef]:
        """See `ChunkIndex`. Raises `EmbeddingFailed`, `WrongVector`, `BackendUnreachable`, `CollectionNotFound`."""
        admitted = _filter_attributes(request.query.attributes)
        candidates = await self._qdrant.run(lambda client: self._count(client, admitted)) if self._dimension else 0
        if not candidates:
            empty: list[Ranking[ChunkRef]] = await rank(None, [request])
            return empty[0]
        query = await rank.prepare(request, self._dimension)
        search = _Search(self._name, query, admitted, approximate=self._qdrant.is_server)

        def run_search(client: QdrantClient) -> Ranking[ChunkRef]:
            try:
                return search.run(client, candidates, request)
            except (ApiException, ValueError):
                # The library's engine raises ValueError for an unknown collection.
                if client.collection_exists(self._name):
                    raise
                raise CollectionNotFound(self._collection) from None  # deleted or cut over

        return await self._qdrant.run(run_search)

    async def clear(self) -> None:
        """Delete all points. Raises `BackendUnreachable`."""
        await self._qdrant.run(lambda client: client.delete_collection(self._name))
        self._revision = 0

    async def save_snapshot(self) -> None:
        """Do nothing: Qdrant stores its points itself."""

    async def maintain(self) -> None:
        """Do nothing: Qdrant maintains its index itself."""

    def _count(self, client: QdrantClient, admitted: models.Filter) -> int:
        exists = client.collection_exists(self._name)
        return client.count(self._name, admitted, exact=True).count if exists else 0

    def _replace_points(self, client: QdrantClient, document_revisions: Sequence[DocumentRevision]) -> None:
        """Write new points, delete old ones, then move the head: after a crash in between all of it is repeated."""
        self._ensure_collection(client)
        points = [point for document_revision in document_revisions for point in self._create_points(document_revision)]
        for start in range(0, len(points), POINTS_AT_ONCE):
            client.upsert(self._name, points[start : start + POINTS_AT_ONCE], wait=True)
        written = models.MatchAny(any=[document.document_id for document in document_revisions])
        new = models.HasIdCondition(has_id=[point.id for point in points])
        old = models.Filter(must=[models.FieldCondition(key="document", match=written)], must_not=[new])
        client.delete(self._name, models.FilterSelector(filter=old), wait=True)
        head = models.PointStruct(id=_HEAD, vector={}, payload={"revision": document_revisions[-1].revision})
        client.upsert(self._name, [head], wait=True)

    def _ensure_collection(self, client: QdrantClient) -> None:
        if client.collection_exists(self._name):
            return
        # Vectors have unit length or are zero, so the dot product is the cosine (S-15).
        client.create_collection(
            self._name,
            vectors_config={DENSE: models.VectorParams(size=self._dimension, distance=models.Distance.DOT)},
            sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        if self._qdrant.is_server:
            for field in ("document", "facets"):
                client.create_payload_index(self._name, field, models.PayloadSchemaType.KEYWORD)

    def _create_points(self, document_revision: DocumentRevision) -> list[models.PointStruct]:
        if document_revision.vectors is None:
            return []
        units = scale_to_unit(document_revision.vectors.astype(np.float64))
        facets = [encode_attribute(name, value) for name, value in document_revision.metadata]
        return [
            models.PointStruct(
                id=str(uuid.uuid5(_NAMES, f"{document_revision.document_id}\0{document_revision.revision}\0{number}")),
                vector={DENSE: vector.tolist(), SPARSE: self._encode_terms(document_revision.text[slice(*span)])},
                payload={
                    "document": document_revision.document_id,
                    "revision": document_revision.revision,
                    "number": number,
                    "facets": facets,
                },
            )
            for number, (span, vector) in enumerate(zip(document_revision.spans, units, strict=True))
        ]

    def _encode_terms(self, text: str) -> models.SparseVector:
        frequencies = saturate_frequencies(self._tokenize(text), self._variant, self._average_length)
        return models.SparseVector(indices=list(frequencies), values=list(frequencies.values()))


class _Search:
    """One query on one collection."""

    def __init__(self, name: str, query: PreparedQuery, admitted: models.Filter, *, approximate: bool) -> None:
        self._name = name
        self._query = query
        self._admitted = admitted
        # The library's own engine is always exact, and warns about this parameter.
        self._exact_params = models.SearchParams(exact=True) if approximate else None
        # The frequency of a term is counted among the candidates (S-13).
        self._idf_params = models.SearchParams(idf=models.IdfCorpusParams(corpus=admitted)) if admitted.must else None

    def run(self, client: QdrantClient, candidates: int, request: RankingRequest) -> Ranking[ChunkRef]:
        """Return the best of the candidates; `candidates` is their number."""
        fusion = self._query.fusion
        pool = self._select_pool(client, max(POOL, 4 * request.query.top_k))
        ids, refs = list(pool), list(pool.values())
        cosine, bm25 = self._score(client, ids)
        by_revision = sorted(range(len(refs)), key=lambda row: (refs[row].revision, refs[row].number))
        ranked = fuse(cosine, bm25, np.argsort(np.array(by_revision)), fusion, request.query.top_k)
        best = ranked.rows.tolist()
        terms = self._explain(client, [ids[row] for row in best]) if request.explain else {}
        matched = [tuple(terms.get(ids[row], ())) for row in best]
        results = Results([refs[row] for row in best], ranked.scores, matched)
        return Ranking(results, candidates, fusion.alpha, candidates > len(ids))

    def _select_pool(self, client: QdrantClient, size: int) -> dict[str, ChunkRef]:
        """Return the best chunks by cosine and by BM25, and the one with the lowest cosine, for min-max scaling."""
        requests = [
            self._request_nearest(self._query.vector.tolist(), self._admitted, size),
            self._request_nearest((-self._query.vector).tolist(), self._admitted, 1),
        ]
        if self._query.terms:
            requests.append(self._build_bm25_request(self._query.terms, self._admitted, size))
        pool: dict[str, ChunkRef] = {}
        for response in client.query_batch_points(self._name, requests):
            for point in response.points:
                payload = point.payload or {}
                pool[str(point.id)] = ChunkRef(payload["document"], payload["revision"], payload["number"])
        return pool

    def _score(self, client: QdrantClient, ids: Sequence[str]) -> tuple[Floats, Floats]:
        """Return cosine and BM25 of these chunks."""
        chunks = _filter_ids(ids)
        requests = [self._request_nearest(self._query.vector.tolist(), chunks, len(ids), self._exact_params)]
        if self._query.terms:
            requests.append(self._build_bm25_request(self._query.terms, chunks, len(ids)))
        responses = client.query_batch_points(self._name, requests)
        by_vector = [{str(point.id): point.score for point in response.points} for response in responses]
        cosine, bm25 = (
            np.round([by_vector[number].get(i, 0.0) if number < len(by_vector) else 0.0 for i in ids], DECIMALS)
            for number in (0, 1)
        )
        return cosine, bm25

    def _explain(self, client: QdrantClient, ids: Sequence[str]) -> dict[str, list[TermScore]]:
        """Return the part of each query term in each chunk's BM25."""
        repetitions = Counter(self._query.terms)
        terms = list(repetitions)[:EXPLAINED_TERMS]
        requests = [self._build_bm25_request([term] * repetitions[term], _filter_ids(ids), len(ids)) for term in terms]
        explained: dict[str, list[TermScore]] = {}
        for term, response in zip(terms, client.query_batch_points(self._name, requests), strict=True):
            for point in response.points:
                if point.score:
                    explained.setdefault(str(point.id), []).append(TermScore(term, point.score))
        return explained

    def _request_nearest(
        self, vector: list[float], admitted: models.Filter, limit: int, params: models.SearchParams | None = None
    ) -> models.QueryRequest:
        return models.QueryRequest(
            query=vector, using=DENSE, filter=admitted, limit=limit, params=params, with_payload=True
        )

    def _build_bm25_request(self, terms: Sequence[str], admitted: models.Filter, limit: int) -> models.QueryRequest:
        counts = Counter(map(hash_term, terms))
        vector = models.SparseVector(indices=list(counts), values=[float(count) for count in counts.values()])
        return models.QueryRequest(
            query=vector, using=SPARSE, filter=admitted, limit=limit, params=self._idf_params, with_payload=True
        )


def _filter_attributes(attributes: Attributes) -> models.Filter:
    must: list[Any] = [
        models.FieldCondition(key="facets", match=models.MatchValue(value=encode_attribute(name, value)))
        for name, value in attributes
    ]
    return models.Filter(must=must or None, must_not=_ALL_CHUNKS.must_not)


def _filter_ids(ids: Sequence[str]) -> models.Filter:
    return models.Filter(must=[models.HasIdCondition(has_id=list(ids))])
