"""Ranks the bullets of a dataset for one query or many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np

from chassis.cpu import CpuPool
from services.search.domain.bullet import Bullet
from services.search.domain.embedding import Float32s, VectorWeight
from services.search.domain.errors import EmbeddingFailed, WrongVector
from services.search.domain.fusion import checked_alpha
from services.search.domain.query import ItemT, Ranking, SearchQuery
from services.search.domain.ranking import unit
from services.search.domain.tokenizers import QueryTokenizer
from services.search.domain.view import Fusion, IndexView
from services.search.usecases.embed_texts import EmbedTexts
from services.search.usecases.playbook_indexes import PlaybookIndexes

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
        self, embed: EmbedTexts, tokenize: QueryTokenizer, weight: VectorWeight, method: str, pool: CpuPool
    ) -> None:
        self._embed = embed
        self._tokenize = tokenize
        self._weight = weight
        self._method = method
        self._pool = pool

    @property
    def model(self) -> str:
        """Id of the embedder."""
        return self._embed.embedder.model

    def by(self, embed: EmbedTexts) -> RankEntries:
        """The same with another embedder."""
        if embed is self._embed:
            return self
        return RankEntries(embed, self._tokenize, self._weight, self._method, self._pool)

    def at_once(self, view: IndexView[ItemT] | None, ask: Ask) -> Ranking[ItemT] | None:
        """The ranking, if the query's vector is known and others need not wait long meanwhile; else None.

        Most queries are answered so. Raises `WrongVector`.
        """
        fusion = self._fused(ask)
        if view is None:
            return Ranking(alpha=fusion.alpha)
        query = ask.query
        if view.rows * view.dimension > INLINE_PRODUCTS or len(query.query_text) > INLINE_CHARACTERS:
            return None
        vector = self._vector(view, ask)
        if not view.candidates(query.filter).count:
            return Ranking(alpha=fusion.alpha)
        return None if vector is None else self._ranked(view, ask, fusion, vector)

    async def __call__(self, view: IndexView[ItemT] | None, asks: Sequence[Ask]) -> list[Ranking[ItemT]]:
        """One ranking a query, in order; no embedding call for queries without candidates (S-08, S-12).

        Raises `EmbeddingFailed`, `WrongVector`.
        """
        fusions = [self._fused(ask) for ask in asks]
        if view is None:
            return [Ranking(alpha=fusion.alpha) for fusion in fusions]
        vectors = [self._vector(view, ask) for ask in asks]
        answerable = [view.candidates(ask.query.filter).count > 0 for ask in asks]
        unknown = [place for place, vector in enumerate(vectors) if vector is None and answerable[place]]
        if unknown:
            texts = [asks[place].query.query_text for place in unknown]
            for place, vector in zip(unknown, await self._embedded(texts, view.dimension), strict=True):
                vectors[place] = vector

        def rank() -> list[Ranking[ItemT]]:
            return [
                self._ranked(view, ask, fusion, vector) if can and vector is not None else Ranking(alpha=fusion.alpha)
                for ask, fusion, vector, can in zip(asks, fusions, vectors, answerable, strict=True)
            ]

        products = view.rows * view.dimension * len(asks)
        if products <= INLINE_PRODUCTS and sum(len(ask.query.query_text) for ask in asks) <= INLINE_CHARACTERS:
            return rank()
        return await self._pool.run(rank)

    async def question(self, ask: Ask, dimension: int) -> Question:
        """The query for an index elsewhere, with vectors of `dimension`. Raises `EmbeddingFailed`, `WrongVector`."""
        text = ask.query.query_text
        if ask.vector is not None:
            vector = self._given(ask.vector, dimension)
        else:
            (vector,) = await self._embedded([text], dimension)
        return Question(self._tokenize(text), vector, self._fused(ask))

    def _ranked(self, view: IndexView[ItemT], ask: Ask, fusion: Fusion, vector: Float32s) -> Ranking[ItemT]:
        query = ask.query
        return view.search(self._tokenize(query.query_text), vector, query.filter, fusion, query.top_k, ask.explain)

    def _fused(self, ask: Ask) -> Fusion:
        method = ask.fusion or self._method
        if ask.alpha is not None:
            return Fusion(checked_alpha(ask.alpha), method)
        return Fusion(self._weight.of(ask.query.query_text, self._embed.embedder), method)

    def _vector(self, view: IndexView[ItemT], ask: Ask) -> Float32s | None:
        """The query's unit vector, given or remembered; None if it is to be made."""
        if ask.vector is not None:
            return self._given(ask.vector, view.dimension)
        vector = self._embed.known_direction(ask.query.query_text)
        return vector if vector is not None and len(vector) == view.dimension else None

    async def _embedded(self, texts: Sequence[str], dimension: int) -> list[Float32s]:
        vectors = await self._embed.directions(texts)
        for vector in vectors:
            if len(vector) != dimension:
                raise EmbeddingFailed(f"query of dimension {len(vector)}, index of {dimension}")
        return vectors

    def _given(self, vector: QueryVector, dimension: int) -> Float32s:
        if vector.model != self.model:
            raise WrongVector(f"made by {vector.model!r}, the index is made by {self.model!r}")
        if len(vector.values) != dimension:
            raise WrongVector(f"has dimension {len(vector.values)}, the index has {dimension}")
        if not np.isfinite(vector.values).all():
            raise WrongVector("has a value that is not finite")
        return _unit(vector.values)


class SearchPlaybook:
    """Ranks bullets of followed playbooks (S-01 to S-35)."""

    def __init__(
        self, indexes: PlaybookIndexes, rank: RankEntries, remaining: Callable[[], float | None] = lambda: None
    ) -> None:
        self._indexes = indexes
        self._rank = rank
        self._remaining = remaining

    def at_once(self, dataset: str, ask: Ask, min_revision: int = 0) -> Answer[Bullet] | None:
        """The answer, if there is nothing to wait for. Raises `WrongVector`."""
        playbook = self._indexes.of(dataset)
        if playbook.revision < min_revision:
            return None
        view, rank = playbook.view, self._rank.by(playbook.embed)
        ranking = rank.at_once(view, ask)
        return None if ranking is None else Answer(ranking, view.revision if view else playbook.revision, rank.model)

    async def __call__(self, dataset: str, asks: Sequence[Ask], min_revision: int = 0) -> list[Answer[Bullet]]:
        """One answer a query, all at one revision, which is at least `min_revision`.

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


def _unit(vector: Float32s) -> Float32s:
    return unit(vector.astype(np.float64)).astype(np.float32)
