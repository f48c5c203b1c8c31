"""A response holds the results."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hansei.playbook.v1 import playbook_pb2
from hansei.search.v1 import search_pb2, search_service_pb2
from services.search.adapters.peers import decode_bullet
from services.search.domain.query import Ranking, Results, ScoredItem, TermScore
from services.search.rpc.convert.search import encode_response
from services.search.usecases.rank_entries import RankingResponse

numbers = st.floats(allow_nan=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
bullets = st.builds(
    lambda content, votes, keywords: decode_bullet(
        playbook_pb2.Bullet(id="b", content=content, helpful=votes, keywords=keywords)
    ),
    texts,
    st.integers(0, 1000),
    st.lists(texts, max_size=3),
)
terms = st.lists(st.builds(TermScore, texts, numbers), max_size=3).map(tuple)
scored = st.builds(ScoredItem, bullets, numbers, numbers, numbers, numbers, numbers, terms)


@given(st.lists(scored, max_size=4), st.integers(-1, 9), st.booleans(), st.floats(0, 1))
@settings(max_examples=200)
def test_a_response_has_all_results(
    expected: list[ScoredItem],  # type: ignore[type-arg]
    revision: int,
    approximate: bool,
    limit: float,
) -> None:
    scores = np.array([scored_bullet[1:6] for scored_bullet in expected], np.float64).reshape(-1, 5).T
    results = Results(
        [scored_bullet.item for scored_bullet in expected], scores, [scored_bullet.terms for scored_bullet in expected]
    )
    assert (list(results), list(results[1:]), list(results[:1:-1])) == (expected, expected[1:], expected[:1:-1])
    response = RankingResponse(Ranking(results, 9, 0.5, approximate), revision, "model", limit)
    assert encode_response(response) == search_service_pb2.SearchResponse(
        results=[
            search_pb2.SearchResult(
                bullet=playbook_pb2.Bullet.FromString(scored_bullet.item.serialized_form),
                vector_score=scored_bullet.vector_score,
                bm25_score=scored_bullet.bm25_score,
                combined_score=scored_bullet.combined_score,
                raw_cosine=scored_bullet.raw_cosine,
                raw_bm25=scored_bullet.raw_bm25,
                keyword_match=scored_bullet.raw_bm25 != 0,
                terms=[search_pb2.TermScore(term=part.term, score=part.score) for part in scored_bullet.terms],
            )
            for scored_bullet in expected
        ],
        revision=max(revision, 0),
        embedding_model="model",
        approximate=approximate,
        alpha=0.5,
        nothing_matched=not any(item.raw_bm25 != 0 or item.raw_cosine >= limit for item in expected),
        similarity_limit=limit,
    )
