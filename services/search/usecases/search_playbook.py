"""Ranks the bullets of a dataset for one query or many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np

from chassis.server.cpu import CpuPool
from libs.embedding.embedder import TextEmbedder
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.model import Float32s
from services.search.domain.bullet import Bullet
from services.search.domain.errors import WrongVector
from services.search.domain.fusion import Fusion, checked_alpha
from services.search.domain.query import ItemT, Ranking, SearchQuery
from services.search.domain.tokenizers import QueryTokenizer
from services.search.domain.vector_weight import VectorWeight
from services.search.domain.vectors import unit
from services.search.usecases.playbook_indexes import PlaybookIndexes
from services.search.usecases.ports import SearchView

# Below this a query is answered sooner than another thread would take it up (about 0.5 ms).
INLINE_PRODUCTS = 4_000_000
INLINE_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A vector that the caller already has: the model that made it, and its float32 values."""

    model: str
    values: Float32s


class Ask(NamedTuple):
    """A query and how it is to be answered; None and empty mean the service's defaults.

    ``alpha`` given is taken as it is; the default is scaled by what the embedder knows of the query's script.
    """

    query: SearchQuery
    alpha: float | None = None
    fusion: str = ""
    vector: QueryVector | None = None
    explain: bool = False


class Answer(NamedTuple, Generic[ItemT]):
    """What was found, at which revision, by vectors of which model."""

    ranking: Ranking[ItemT]
    revision: int
    model: str


@dataclass(frozen=True, slots=True)
class Question:
    """A query as an index takes it: its terms, its vector (unit length or zero, float32), how scores are fused."""

    terms: Sequence[str]
    vector: Float32s
    fusion: Fusion


class RankEntries:
    """Answers queries over one state of an index: one embedding call for all, then one after another in one pass."""

    def __init__(
        self, embed: TextEmbedder, tokenize: QueryTokenizer, weight: VectorWeight, method: str, pool: CpuPool
    ) -> None:
        self._embed = embed
        self._tokenize = tokenize
        self._weight = weight
        self._method = method
        self._pool = pool

    @property
    def model(self) -> str:
        """Return the id of the embedder."""
        return self._embed.model.model_id

    def by(self, embed: TextEmbedder) -> RankEntries:
        """Return the same with another embedder."""
        if embed is self._embed:
            return self
        return RankEntries(embed, self._tokenize, self._weight, self._method, self._pool)

    async def __call__(self, view: SearchView[ItemT] | None, asks: Sequence[Ask]) -> list[Ranking[ItemT]]:
        """Return one ranking a query, in order; no embedding call for queries without candidates (S-08, S-12).

        Raises `EmbeddingFailed`, `WrongVector`.
        """
        if view is None:
            return [Ranking(alpha=self._fusion(ask).alpha) for ask in asks]
        vectors = await self._vectors(view, asks)

        def rank() -> list[Ranking[ItemT]]:
            return [self._ranking(view, ask, vector) for ask, vector in zip(asks, vectors, strict=True)]

        products = view.rows * view.dimension * len(asks)
        if products <= INLINE_PRODUCTS and sum(len(ask.query.query_text) for ask in asks) <= INLINE_CHARACTERS:
            return rank()
        return await self._pool.run(rank)

    async def question(self, ask: Ask, dimension: int) -> Question:
        """Return the query for an index elsewhere, with vectors of `dimension`.

        Raises `EmbeddingFailed`, `WrongVector`.
        """
        if ask.vector is not None:
            vector = self._checked_vector(ask.vector, dimension)
        else:
            (vector,) = await self._embedded([ask.query.query_text], dimension)
        return Question(self._tokenize(ask.query.query_text), vector, self._fusion(ask))

    def _ranking(self, view: SearchView[ItemT], ask: Ask, vector: Float32s | None) -> Ranking[ItemT]:
        query, fusion = ask.query, self._fusion(ask)
        if vector is None:
            return Ranking(alpha=fusion.alpha)
        return view.search(self._tokenize(query.query_text), vector, query.filter, fusion, query.top_k, ask.explain)

    def _fusion(self, ask: Ask) -> Fusion:
        method = ask.fusion or self._method
        if ask.alpha is not None:
            return Fusion(checked_alpha(ask.alpha), method)
        return Fusion(self._weight.of(ask.query.query_text, self._embed.model), method)

    async def _vectors(self, view: SearchView[ItemT], asks: Sequence[Ask]) -> list[Float32s | None]:
        """Return the unit vector of each query, given or made; None for a query without candidates."""
        vectors: list[Float32s | None] = []
        unknown: list[int] = []
        for place, ask in enumerate(asks):
            vector = None if ask.vector is None else self._checked_vector(ask.vector, view.dimension)
            if not view.count_candidates(ask.query.filter):
                vector = None
            elif vector is None:
                unknown.append(place)
            vectors.append(vector)
        if unknown:
            texts = [asks[place].query.query_text for place in unknown]
            for place, vector in zip(unknown, await self._embedded(texts, view.dimension), strict=True):
                vectors[place] = vector
        return vectors

    async def _embedded(self, texts: Sequence[str], dimension: int) -> Float32s:
        vectors = await self._embed.embed_queries(texts)
        if vectors.shape[1] != dimension:
            raise EmbeddingFailed(f"query of dimension {vectors.shape[1]}, index of {dimension}")
        return vectors

    def _checked_vector(self, vector: QueryVector, dimension: int) -> Float32s:
        if vector.model != self.model:
            raise WrongVector(f"made by {vector.model!r}, the index is made by {self.model!r}")
        if len(vector.values) != dimension:
            raise WrongVector(f"has dimension {len(vector.values)}, the index has {dimension}")
        if not np.isfinite(vector.values).all():
            raise WrongVector("has a value that is not finite")
        return unit(vector.values.astype(np.float64)).astype(np.float32)


class SearchPlaybook:
    """Ranks bullets of followed playbooks (S-01 to S-35)."""

    def __init__(
        self, indexes: PlaybookIndexes, rank: RankEntries, remaining: Callable[[], float | None] = lambda: None
    ) -> None:
        self._indexes = indexes
        self._rank = rank
        self._remaining = remaining

    async def __call__(self, dataset: str, asks: Sequence[Ask], min_revision: int = 0) -> list[Answer[Bullet]]:
        """Return one answer a query, all at one revision, which is at least `min_revision`.

        Waits for that revision within the caller's deadline. A dataset nothing was written to gives no results (G-36).
        Raises `EmbeddingFailed`, `WrongVector`, `PlaybookUnreachable`, `RevisionNotReached`.
        """
        playbook = self._indexes.of(dataset)
        if playbook.revision >= min_revision:
            view = playbook.view
        else:
            left = self._remaining()
            # A reserve, so that the caller hears why instead of only that its time is up.
            view = await playbook.reached(min_revision, None if left is None else left * 0.9)
        revision = view.revision if view else playbook.revision
        rank = self._rank.by(playbook.embed)
        return [Answer(ranking, revision, rank.model) for ranking in await rank(view, asks)]
