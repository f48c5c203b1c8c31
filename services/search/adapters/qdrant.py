"""The chunks of a collection in Qdrant, for collections beyond one machine's memory.

Each chunk is a point with two vectors: `dense`, and `bm25`, a sparse vector whose values are the saturated frequencies
of its terms and whose idf Qdrant applies. Qdrant finds a pool by each of the two and scores all of the pool by both;
scaling and fusing are the same as everywhere here. Points name the writing they belong to, so a point that was left
over is never mistaken for a chunk that is there.
"""

from __future__ import annotations

import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from chassis.server.cpu import CpuPool
from services.search.domain.bm25 import Variant
from services.search.domain.collection import ChunkRef, Collection, Writing
from services.search.domain.collection_errors import BackendUnreachable, CollectionNotFound
from services.search.domain.fusion import Floats, fuse
from services.search.domain.query import Attributes, Ranking, Results, TermScore
from services.search.domain.tokenizers import Tokenizer
from services.search.domain.vectors import unit
from services.search.usecases.search_playbook import Ask, Question, RankEntries

T = TypeVar("T")

DENSE, SPARSE = "dense", "bm25"
POOL = 256
"""Best chunks by each side that are scored by both; at least four times as many as are asked for."""
POINTS_AT_ONCE = 256
EXPLAINED_TERMS = 64
DECIMALS = 6
"""Qdrant computes in float32: what differs by less than this is equal (S-41)."""

# A point without vectors that says which revision of the collection the points hold.
_HEAD = str(uuid.UUID(int=0))
_NAMES = uuid.UUID("8d1f2c5e-3a47-4c0b-9a51-6f1f0f7f4e11")
_ALL_CHUNKS = models.Filter(must_not=[models.HasIdCondition(has_id=[_HEAD])])


class Qdrant:
    """A Qdrant server at a URL, or the library's own engine in a folder. Calls run in threads: the client blocks."""

    def __init__(self, place: str, api_key: str = "") -> None:
        self.is_server = "://" in place
        self._place = place
        self._api_key = api_key
        self._client: QdrantClient | None = None
        # The library's engine knows no locks.
        self._pool = CpuPool("search-qdrant", workers=8 if self.is_server else 1, queue=256)

    async def run(self, job: Callable[[QdrantClient], T]) -> T:
        """The result of `job`. Raises `BackendUnreachable`."""
        try:
            return await self._pool.run(lambda: job(self._connected()))
        except (ApiException, OSError) as error:
            raise BackendUnreachable(type(error).__name__) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._pool.close()
        if self._client is not None:
            self._client.close()

    def _connected(self) -> QdrantClient:
        if self._client is None:
            where = {"url": self._place, "api_key": self._api_key or None} if self.is_server else {"path": self._place}
            self._client = QdrantClient(**where, check_compatibility=False, force_disable_check_same_thread=True)
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
        # The average length of chunks changes with each: BM25 needs one that stays.
        self._average_length = collection.chunking.tokens
        self._revision = 0

    @property
    def revision(self) -> int:
        """The collection's revision that it holds; 0 for none."""
        return self._revision

    async def open(self) -> None:
        """Ask which revision the points hold. Raises `BackendUnreachable`."""

        def work(client: QdrantClient) -> int:
            if not client.collection_exists(self._name):
                return 0
            head = client.retrieve(self._name, [_HEAD])
            return int((head[0].payload or {})["revision"]) if head else 0

        self._revision = await self._qdrant.run(work)

    async def chunks(self) -> int:
        """How many chunks it holds. Raises `BackendUnreachable`."""

        def work(client: QdrantClient) -> int:
            there = client.collection_exists(self._name)
            return client.count(self._name, _ALL_CHUNKS, exact=True).count if there else 0

        return await self._qdrant.run(work)

    async def take(self, writings: Sequence[Writing]) -> None:
        """Take up these writings; doing so twice changes nothing. Raises `BackendUnreachable`."""
        dimensions = {writing.vectors.shape[1] for writing in writings if writing.vectors is not None}
        self._dimension = max(dimensions, default=self._dimension)
        if self._dimension:
            await self._qdrant.run(lambda client: self._take(client, writings))
        self._revision = writings[-1].revision

    async def search(self, rank: RankEntries, ask: Ask) -> Ranking[ChunkRef]:
        """See `ChunkIndex`. Raises `EmbeddingFailed`, `WrongVector`, `BackendUnreachable`, `CollectionNotFound`."""
        admitted = _filter(ask.query.attributes)
        candidates = await self._qdrant.run(lambda client: self._count(client, admitted)) if self._dimension else 0
        if not candidates:
            nothing: list[Ranking[ChunkRef]] = await rank(None, [ask])
            return nothing[0]
        question = await rank.question(ask, self._dimension)
        search = _Search(self._name, question, admitted, approximate=self._qdrant.is_server)

        def work(client: QdrantClient) -> Ranking[ChunkRef]:
            try:
                return search.ranking(client, candidates, ask)
            except (ApiException, ValueError):
                # The library's engine says ValueError to a collection that is not there.
                if client.collection_exists(self._name):
                    raise
                raise CollectionNotFound(self._collection) from None  # deleted, or given up for another model's

        return await self._qdrant.run(work)

    async def clear(self) -> None:
        """Hold nothing any more. Raises `BackendUnreachable`."""
        await self._qdrant.run(lambda client: client.delete_collection(self._name))
        self._revision = 0

    async def keep(self) -> None:
        """Nothing: Qdrant keeps what it holds."""

    async def tend(self) -> None:
        """Nothing: Qdrant tends its own index."""

    def _count(self, client: QdrantClient, admitted: models.Filter) -> int:
        there = client.collection_exists(self._name)
        return client.count(self._name, admitted, exact=True).count if there else 0

    def _take(self, client: QdrantClient, writings: Sequence[Writing]) -> None:
        """New points first, then the old ones go, then the head moves: after a crash in between it is done again."""
        self._create(client)
        points = [point for writing in writings for point in self._points(writing)]
        for start in range(0, len(points), POINTS_AT_ONCE):
            client.upsert(self._name, points[start : start + POINTS_AT_ONCE], wait=True)
        written = models.MatchAny(any=[writing.document_id for writing in writings])
        new = models.HasIdCondition(has_id=[point.id for point in points])
        old = models.Filter(must=[models.FieldCondition(key="document", match=written)], must_not=[new])
        client.delete(self._name, models.FilterSelector(filter=old), wait=True)
        head = models.PointStruct(id=_HEAD, vector={}, payload={"revision": writings[-1].revision})
        client.upsert(self._name, [head], wait=True)

    def _create(self, client: QdrantClient) -> None:
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

    def _points(self, writing: Writing) -> list[models.PointStruct]:
        if writing.vectors is None:
            return []
        units = unit(writing.vectors.astype(np.float64))
        facets = [_facet(name, value) for name, value in writing.metadata]
        return [
            models.PointStruct(
                id=str(uuid.uuid5(_NAMES, f"{writing.document_id}\0{writing.revision}\0{number}")),
                vector={DENSE: vector.tolist(), SPARSE: self._sparse(writing.text[slice(*span)])},
                payload={
                    "document": writing.document_id,
                    "revision": writing.revision,
                    "number": number,
                    "facets": facets,
                },
            )
            for number, (span, vector) in enumerate(zip(writing.spans, units, strict=True))
        ]

    def _sparse(self, text: str) -> models.SparseVector:
        """The part of BM25 that belongs to the chunk: frequencies, saturated, by length."""
        terms = self._tokenize(text)
        variant = self._variant
        norm = variant.k1 * (1 - variant.b + variant.b * len(terms) / self._average_length)
        counts = Counter(map(_number, terms))
        values = [count * variant.gain / (count + norm) for count in counts.values()]
        return models.SparseVector(indices=list(counts), values=values)


class _Search:
    """One question to one collection."""

    def __init__(self, name: str, question: Question, admitted: models.Filter, *, approximate: bool) -> None:
        self._name = name
        self._question = question
        self._admitted = admitted
        # The library's own engine is always exact, and warns of being asked to be.
        self._exactly = models.SearchParams(exact=True) if approximate else None
        # How common a term is, is counted among the candidates (S-13).
        self._among = models.SearchParams(idf=models.IdfCorpusParams(corpus=admitted)) if admitted.must else None

    def ranking(self, client: QdrantClient, candidates: int, ask: Ask) -> Ranking[ChunkRef]:
        """The best chunks out of so many candidates."""
        fusion = self._question.fusion
        found = self._pool(client, max(POOL, 4 * ask.query.top_k))
        ids, refs = list(found), list(found.values())
        cosine, bm25 = self._scores(client, ids)
        written = sorted(range(len(refs)), key=lambda place: (refs[place].revision, refs[place].number))
        ranked = fuse(cosine, bm25, np.argsort(np.array(written)), fusion, ask.query.top_k)
        best = ranked.rows.tolist()
        terms = self._explained(client, [ids[place] for place in best]) if ask.explain else {}
        matched = [tuple(terms.get(ids[place], ())) for place in best]
        results = Results([refs[place] for place in best], ranked.scores, matched)
        return Ranking(results, candidates, fusion.alpha, candidates > len(ids))

    def _pool(self, client: QdrantClient, size: int) -> dict[str, ChunkRef]:
        """The best by each side, and the farthest: min-max needs to know how low scores go."""
        requests = [
            self._dense(self._question.vector.tolist(), self._admitted, size),
            self._dense((-self._question.vector).tolist(), self._admitted, 1),
        ]
        if self._question.terms:
            requests.append(self._sparse(self._question.terms, self._admitted, size))
        found: dict[str, ChunkRef] = {}
        for response in client.query_batch_points(self._name, requests):
            for point in response.points:
                payload = point.payload or {}
                found[str(point.id)] = ChunkRef(payload["document"], payload["revision"], payload["number"])
        return found

    def _scores(self, client: QdrantClient, ids: Sequence[str]) -> tuple[Floats, Floats]:
        """Cosine and BM25 of these chunks, each scored by both."""
        these = _within(ids)
        requests = [self._dense(self._question.vector.tolist(), these, len(ids), self._exactly)]
        if self._question.terms:
            requests.append(self._sparse(self._question.terms, these, len(ids)))
        responses = client.query_batch_points(self._name, requests)
        by_side = [{str(point.id): point.score for point in response.points} for response in responses]
        cosine, bm25 = (
            np.round([by_side[side].get(i, 0.0) if side < len(by_side) else 0.0 for i in ids], DECIMALS)
            for side in (0, 1)
        )
        return cosine, bm25

    def _explained(self, client: QdrantClient, ids: Sequence[str]) -> dict[str, list[TermScore]]:
        """The part of each term of the query in each chunk's BM25."""
        times = Counter(self._question.terms)
        terms = list(times)[:EXPLAINED_TERMS]
        requests = [self._sparse([term] * times[term], _within(ids), len(ids)) for term in terms]
        explained: dict[str, list[TermScore]] = {}
        for term, response in zip(terms, client.query_batch_points(self._name, requests), strict=True):
            for point in response.points:
                if point.score:
                    explained.setdefault(str(point.id), []).append(TermScore(term, point.score))
        return explained

    def _dense(
        self, vector: list[float], admitted: models.Filter, limit: int, params: models.SearchParams | None = None
    ) -> models.QueryRequest:
        return models.QueryRequest(
            query=vector, using=DENSE, filter=admitted, limit=limit, params=params, with_payload=True
        )

    def _sparse(self, terms: Sequence[str], admitted: models.Filter, limit: int) -> models.QueryRequest:
        counts = Counter(map(_number, terms))
        vector = models.SparseVector(indices=list(counts), values=[float(count) for count in counts.values()])
        return models.QueryRequest(
            query=vector, using=SPARSE, filter=admitted, limit=limit, params=self._among, with_payload=True
        )


def _filter(attributes: Attributes) -> models.Filter:
    must: list[Any] = [
        models.FieldCondition(key="facets", match=models.MatchValue(value=_facet(name, value)))
        for name, value in attributes
    ]
    return models.Filter(must=must or None, must_not=_ALL_CHUNKS.must_not)


def _within(ids: Sequence[str]) -> models.Filter:
    return models.Filter(must=[models.HasIdCondition(has_id=list(ids))])


def _facet(name: str, value: str) -> str:
    """Names hold no equals sign."""
    return f"{name}={value}"


def _number(term: str) -> int:
    """The number of a term in sparse vectors. Of a million terms, some hundred share theirs with another."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))
