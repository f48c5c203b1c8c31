"""A response holds what was found."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hansei.playbook.v1 import playbook_pb2
from hansei.search.v1 import search_pb2, search_service_pb2
from services.search.adapters.peers import bullet_from
from services.search.domain.query import Ranking, Results, Scored, TermScore
from services.search.rpc.convert.search import response_message
from services.search.usecases.search_playbook import Answer

numbers = st.floats(allow_nan=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
bullets = st.builds(
    lambda content, votes, keywords: bullet_from(
        playbook_pb2.Bullet(id="b", content=content, helpful=votes, keywords=keywords)
    ),
    texts,
    st.integers(0, 1000),
    st.lists(texts, max_size=3),
)
terms = st.lists(st.builds(TermScore, texts, numbers), max_size=3).map(tuple)
scored = st.builds(Scored, bullets, numbers, numbers, numbers, numbers, numbers, terms)


@given(st.lists(scored, max_size=4), st.integers(-1, 9), st.booleans())
@settings(max_examples=200)
def test_a_response_holds_what_was_found(found: list[Scored], revision: int, approximate: bool) -> None:  # type: ignore[type-arg]
    scores = np.array([each[1:6] for each in found], np.float64).reshape(-1, 5).T
    results = Results([each.item for each in found], scores, [each.terms for each in found])
    assert (list(results), list(results[1:]), list(results[:1:-1])) == (found, found[1:], found[:1:-1])
    answer = Answer(Ranking(results, 9, 0.5, approximate), revision, "model")
    assert response_message(answer) == search_service_pb2.SearchResponse(
        results=[
            search_pb2.SearchResult(
                bullet=playbook_pb2.Bullet.FromString(each.item.origin),
                vector_score=each.vector_score,
                bm25_score=each.bm25_score,
                combined_score=each.combined_score,
                raw_cosine=each.raw_cosine,
                raw_bm25=each.raw_bm25,
                terms=[search_pb2.TermScore(term=part.term, score=part.score) for part in each.terms],
            )
            for each in found
        ],
        revision=max(revision, 0),
        embedding_model="model",
        approximate=approximate,
    )
