"""Ranks the entries of an index for queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np

from chassis.server.cpu import CpuPool
from libs.embedding.embedder import TextEmbedder
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.model import Float32s, Languages
from services.search.domain.errors import WrongVector
from services.search.domain.fusion import Fusion, check_alpha
from services.search.domain.query import ItemT, Ranking, SearchQuery
from services.search.domain.tokenizers import QueryTokenizer, compute_latin_share
from services.search.domain.vector_weight import VectorWeight
from services.search.domain.vectors import scale_to_unit
from services.search.usecases.ports import SearchView

# Up to this size a query takes less time than a thread hand-over (about 0.5 ms).
INLINE_PRODUCTS = 4_000_000
INLINE_CHARACTERS = 4_000

# A query with a smaller share of Latin letters is not in a language of models for Latin script.
LEAST_LATIN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A vector that the caller computed: the id of its model, and its float32 values."""

    model: str
    values: Float32s


class RankingRequest(NamedTuple):
    """A query with the options of its ranking; None and empty mean the service's defaults.

    ``alpha`` is used as it is; only the default is adapted to the embedding model and the query (`VectorWeight`).
    ``budget_tokens`` limits the tokens of the results; None sets no limit.
    """

    query: SearchQuery
    alpha: float | None = None
    fusion: str = ""
    vector: QueryVector | None = None
    explain: bool = False
    budget_tokens: int | None = None


class RankingResponse(NamedTuple, Generic[ItemT]):
    """A ranking, the revision of the index, and the id of the model of its vectors.

    A text without a word of the query may match from the cosine ``similarity_limit`` on.
    """

    ranking: Ranking[ItemT]
    revision: int
    model: str
    similarity_limit: float = 0.0

    @property
    def has_match(self) -> bool:
        """Return whether a result has a word of the query, or a similarity from the limit on."""
        *_, cosines, bm25_scores = self.ranking.results.scores.tolist()
        return any(bm25_scores) or max(cosines, default=-math.inf) >= self.similarity_limit


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """The terms of a query, its vector (unit length or zero, float32), and the fusion of its scores."""

    terms: Sequence[str]
    vector: Float32s
    fusion: Fusion


class RankEntries:
    """Ranks entries of one state of an index: one embedding call for all queries, then one query after another."""

    def __init__(
        self, embedder: TextEmbedder, tokenize: QueryTokenizer, weight: VectorWeight, method: str, pool: CpuPool
    ) -> None:
        self._embedder = embedder
        self._tokenize = tokenize
        self._weight = weight
        self._method = method
        self._pool = pool

    @property
    def model(self) -> str:
        """Return the id of the embedding model."""
        return self._embedder.model.model_id

    def compute_similarity_limit(self, text: str) -> float:
        """Return the cosine from which a text may match this query.

        It is 1 for a query that is mostly in a script which the model does not know.
        """
        model = self._embedder.model
        if model.languages is Languages.LATIN and compute_latin_share(text) < LEAST_LATIN_SHARE:
            return 1.0
        return model.thresholds.query_match

    def with_embedder(self, embedder: TextEmbedder) -> RankEntries:
        """Return a ranking with the same settings and another embedder."""
        if embedder is self._embedder:
            return self
        return RankEntries(embedder, self._tokenize, self._weight, self._method, self._pool)

    async def __call__(
        self, view: SearchView[ItemT] | None, requests: Sequence[RankingRequest]
    ) -> list[Ranking[ItemT]]:
        """Return one ranking a request, in order; queries without candidates are not embedded (S-08, S-12).

        Raises `EmbeddingFailed`, `WrongVector`.
        """
        if view is None:
            return [Ranking(alpha=self._choose_fusion(request).alpha) for request in requests]
        vectors = await self._complete_vectors(view, requests)

        def rank() -> list[Ranking[ItemT]]:
            return [self._rank(view, request, vector) for request, vector in zip(requests, vectors, strict=True)]

        products = view.rows * view.dimension * len(requests)
        characters = sum(len(request.query.query_text) for request in requests)
        if products <= INLINE_PRODUCTS and characters <= INLINE_CHARACTERS:
            return rank()
        return await self._pool.run(rank)

    async def prepare(self, request: RankingRequest, dimension: int) -> PreparedQuery:
        """Return the query for an index outside this process, with vectors of `dimension`.

        Such an index does not say how rare a term is, so the weight of the vector score does not rise. Raises
        `EmbeddingFailed`, `WrongVector`.
        """
        if request.vector is not None:
            vector = self._check_vector(request.vector, dimension)
        else:
            (vector,) = await self._embed([request.query.query_text], dimension)
        fusion = self._choose_fusion(request)._replace(rise=0.0)
        return PreparedQuery(self._tokenize(request.query.query_text), vector, fusion)

    def _rank(self, view: SearchView[ItemT], request: RankingRequest, vector: Float32s | None) -> Ranking[ItemT]:
        query, fusion = request.query, self._choose_fusion(request)
        if vector is None:
            return Ranking(alpha=fusion.alpha)
        return view.search(self._tokenize(query.query_text), vector, query.filter, fusion, query.top_k, request.explain)

    def _choose_fusion(self, request: RankingRequest) -> Fusion:
        method = request.fusion or self._method
        if request.alpha is not None:
            return Fusion(check_alpha(request.alpha), method)
        return self._weight.choose_fusion(request.query.query_text, self._embedder.model, method)

    async def _complete_vectors(
        self, view: SearchView[ItemT], requests: Sequence[RankingRequest]
    ) -> list[Float32s | None]:
        """Return the unit vector of each query, sent or embedded here; None for a query without candidates."""
        vectors: list[Float32s | None] = []
        missing: list[int] = []
        for position, request in enumerate(requests):
            vector = None if request.vector is None else self._check_vector(request.vector, view.dimension)
            if not view.count_candidates(request.query.filter):
                vector = None
            elif vector is None:
                missing.append(position)
            vectors.append(vector)
        if missing:
            texts = [requests[position].query.query_text for position in missing]
            for position, vector in zip(missing, await self._embed(texts, view.dimension), strict=True):
                vectors[position] = vector
        return vectors

    async def _embed(self, texts: Sequence[str], dimension: int) -> Float32s:
        vectors = await self._embedder.embed_queries(texts)
        if vectors.shape[1] != dimension:
            raise EmbeddingFailed(f"query of dimension {vectors.shape[1]}, index of {dimension}")
        return vectors

    def _check_vector(self, vector: QueryVector, dimension: int) -> Float32s:
        if vector.model != self.model:
            raise WrongVector(f"was made by {vector.model!r}, but the index by {self.model!r}")
        if len(vector.values) != dimension:
            raise WrongVector(f"has dimension {len(vector.values)}, the index has {dimension}")
        if not np.isfinite(vector.values).all():
            raise WrongVector("has a value that is not finite")
        return scale_to_unit(vector.values.astype(np.float64)).astype(np.float32)
