"""Searches of a playbook: by text, by vectors of the caller, single and batched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from libs.embedding.model import Float32s
from services.search.domain.errors import WrongVector
from services.search.domain.query import SearchQuery
from services.search.tests.usecases.world import bullet, world
from services.search.usecases.rank_entries import INLINE_CHARACTERS, QueryVector, RankingRequest


async def test_an_unknown_dataset_gives_nothing_and_embeds_nothing() -> None:  # G-36, S-08
    async with world() as w:
        (response,) = await w.search("d", [RankingRequest(SearchQuery("text"))])
        assert (list(response.ranking.results), response.revision, response.model) == ([], 0, "lengths")
        assert w.model.embedded == []


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (QueryVector("other", np.ones(2, np.float32)), "was made by 'other', but the index by 'lengths'"),
        (QueryVector("lengths", np.ones(3, np.float32)), "has dimension 3, the index has 2"),
        (QueryVector("lengths", np.array([1, np.nan], np.float32)), "has a value that is not finite"),
    ],
)
async def test_a_vector_that_does_not_fit_is_refused(vector: QueryVector, message: str) -> None:
    async with world() as w:
        w.feed.add(bullet("a"))
        with pytest.raises(WrongVector, match=message):
            await w.search("d", [RankingRequest(SearchQuery("q"), vector=vector)])


async def test_a_given_vector_saves_the_embedding_call_and_a_given_weight_is_not_scaled() -> None:
    async with world() as w:
        w.feed.add(bullet("a", "text"))
        vector = QueryVector("lengths", np.ones(2, np.float32))
        queries = [SearchQuery("q東京東"), SearchQuery("q")]
        requests = [
            RankingRequest(queries[0], vector=vector),
            RankingRequest(queries[1], vector=vector),
            RankingRequest(queries[1], 0.9, "rrf", vector),
        ]
        responses = await w.search("d", requests)
        assert [response.ranking.alpha for response in responses] == [0.5 * 0.5 * 0.25, 0.25, 0.9]
        assert w.model.embedded == ["text"]


async def test_a_long_query_gets_the_same_answer() -> None:
    async with world() as w:
        w.feed.add(bullet("a", "text"), bullet("b", "texts about q"))
        vector = QueryVector("lengths", np.ones(2, np.float32))
        (short,) = await w.search("d", [RankingRequest(SearchQuery("q"), vector=vector)], 1)
        text = "q" + " " * INLINE_CHARACTERS  # for another thread
        (long,) = await w.search("d", [RankingRequest(SearchQuery(text), vector=vector)], 1)
        assert [r.item.id for r in long.ranking.results] == [r.item.id for r in short.ranking.results]


async def test_without_candidates_no_query_is_embedded() -> None:  # S-08
    async with world() as w:
        w.feed.add(bullet("a", "text"))
        await w.search("d", [RankingRequest(SearchQuery("q"))], 1)
        embedded = list(w.model.embedded)
        (response,) = await w.search("d", [RankingRequest(SearchQuery("another", section_filter=["elsewhere"]))])
        assert not response.ranking.results
        assert w.model.embedded == embedded


async def test_many_queries_are_one_embedding_call() -> None:
    async with world() as w:
        w.feed.add(bullet("a", "text"))
        calls: list[int] = []
        embed = w.model.embed

        async def embed_and_count(texts: Sequence[str], *, queries: bool = False) -> Float32s:
            calls.append(len(texts))
            return await embed(texts, queries=queries)

        w.model.embed = embed_and_count  # type: ignore[method-assign]
        await w.search("d", [RankingRequest(SearchQuery(f"q{i % 3}")) for i in range(9)])
        assert calls == [1, 3]
