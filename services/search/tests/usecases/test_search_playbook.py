"""How a playbook is asked: with texts, with vectors of the caller, one by one and many at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from libs.embedding.model import Float32s
from services.search.domain.errors import WrongVector
from services.search.domain.query import SearchQuery
from services.search.tests.usecases.world import bullet, world
from services.search.usecases.search_playbook import INLINE_CHARACTERS, Ask, QueryVector


async def test_an_unknown_dataset_gives_nothing_and_embeds_nothing() -> None:  # G-36, S-08
    async with world() as w:
        (answer,) = await w.search("d", [Ask(SearchQuery("text"))])
        assert (list(answer.ranking.results), answer.revision, answer.model) == ([], 0, "lengths")
        assert w.embedder.embedded == []


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (QueryVector("other", np.ones(2, np.float32)), "made by 'other', the index is made by 'lengths'"),
        (QueryVector("lengths", np.ones(3, np.float32)), "has dimension 3, the index has 2"),
        (QueryVector("lengths", np.array([1, np.nan], np.float32)), "has a value that is not finite"),
    ],
)
async def test_a_vector_that_does_not_fit_is_refused(vector: QueryVector, message: str) -> None:
    async with world() as w:
        w.feed.add(bullet("a"))
        with pytest.raises(WrongVector, match=message):
            await w.search("d", [Ask(SearchQuery("q"), vector=vector)])


async def test_a_given_vector_saves_the_embedding_call_and_a_given_weight_is_not_scaled() -> None:
    async with world() as w:
        w.feed.add(bullet("a", "text"))
        vector = QueryVector("lengths", np.ones(2, np.float32))
        queries = [SearchQuery("q東京東"), SearchQuery("q")]
        asks = [Ask(queries[0], vector=vector), Ask(queries[1], vector=vector), Ask(queries[1], 0.9, "rrf", vector)]
        answers = await w.search("d", asks)
        assert [answer.ranking.alpha for answer in answers] == [0.5 * 0.5 * 0.25, 0.25, 0.9]
        assert w.embedder.embedded == ["text"]


async def test_a_long_query_gets_the_same_answer() -> None:
    async with world() as w:
        w.feed.add(bullet("a", "text"), bullet("b", "texts about q"))
        vector = QueryVector("lengths", np.ones(2, np.float32))
        (short,) = await w.search("d", [Ask(SearchQuery("q"), vector=vector)], 1)
        text = "q" + " " * INLINE_CHARACTERS  # for another thread
        (long,) = await w.search("d", [Ask(SearchQuery(text), vector=vector)], 1)
        assert [r.item.id for r in long.ranking.results] == [r.item.id for r in short.ranking.results]


async def test_nothing_is_embedded_for_nobody() -> None:  # S-08
    async with world() as w:
        w.feed.add(bullet("a", "text"))
        await w.search("d", [Ask(SearchQuery("q"))], 1)
        known = list(w.embedder.embedded)
        (answer,) = await w.search("d", [Ask(SearchQuery("another", section_filter=["elsewhere"]))])
        assert not answer.ranking.results
        assert w.embedder.embedded == known


async def test_many_queries_are_one_embedding_call() -> None:
    async with world() as w:
        w.feed.add(bullet("a", "text"))
        calls: list[int] = []
        embed = w.embedder.embed

        async def counted(texts: Sequence[str], *, queries: bool = False) -> Float32s:
            calls.append(len(texts))
            return await embed(texts, queries=queries)

        w.embedder.embed = counted  # type: ignore[method-assign]
        await w.search("d", [Ask(SearchQuery(f"q{i % 3}")) for i in range(9)])
        assert calls == [1, 3]
