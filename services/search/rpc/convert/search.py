"""Conversion between the messages of search and the domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from hansei.search.v1 import collection_pb2, search_pb2
from hansei.search.v1 import search_service_pb2 as pb
from libs.embedding.model import Float32s
from services.search.domain.bullet import IndexedBullet
from services.search.domain.errors import WrongVector
from services.search.domain.query import DEFAULT_MIN_CONFIDENCE, DEFAULT_TOP_K, Results, ScoredItem, SearchQuery
from services.search.rpc.convert.pages import encode_cursor
from services.search.usecases.fit_budget import count_fitting
from services.search.usecases.pinned_rankings import Page
from services.search.usecases.rank_entries import QueryVector, RankingRequest, RankingResponse

FUSIONS = {
    search_pb2.FUSION_UNSPECIFIED: "",
    search_pb2.FUSION_MINMAX: "minmax",
    search_pb2.FUSION_RECIPROCAL_RANK: "rrf",
}


def decode_query(message: search_pb2.SearchQuery, default_budget: int) -> RankingRequest:
    """Return the query of a message; unset fields get defaults, set fields keep their values (S-36).

    A budget of 0 is `default_budget`, tokens.
    """
    sections = message.section_filter
    budget = (message.budget_tokens or default_budget) if message.HasField("budget_tokens") else None
    default_top_k = DEFAULT_TOP_K if budget is None else count_fitting(budget)
    return RankingRequest(
        SearchQuery(
            message.query_text,
            message.top_k if message.HasField("top_k") else default_top_k,
            list(sections) if sections else None,
            message.min_confidence if message.HasField("min_confidence") else DEFAULT_MIN_CONFIDENCE,
            smoothed=not message.HasField("min_confidence"),
        ),
        message.alpha if message.HasField("alpha") else None,
        FUSIONS[message.fusion],
        decode_vector(message.embedding) if message.HasField("embedding") else None,
        message.explain,
        budget,
    )


def decode_vector(message: search_pb2.Embedding) -> QueryVector:
    """Return the vector of a request. Raises `WrongVector`."""
    if len(message.values) != 4 * message.dimension:
        raise WrongVector(f"has {len(message.values)} bytes, dimension {message.dimension} takes 4 bytes each")
    return QueryVector(message.model, np.frombuffer(message.values, "<f4"))


def encode_vector(vector: Float32s, model: str) -> search_pb2.Embedding:
    """Return a vector as little-endian float32."""
    return search_pb2.Embedding(values=vector.astype("<f4").tobytes(), dimension=len(vector), model=model)


def encode_response(
    response: RankingResponse[IndexedBullet], results: Results[IndexedBullet] | None = None
) -> pb.SearchResponse:
    """Return the message of a response; with `results` only of these."""
    message = pb.SearchResponse(
        revision=max(response.revision, 0),
        embedding_model=response.model,
        approximate=response.ranking.preselected,
        alpha=response.ranking.alpha,
        nothing_matched=not response.has_match,
        similarity_limit=response.similarity_limit,
    )
    write_results(message.results, response.ranking.results if results is None else results)
    return message


def encode_page(request: pb.SearchRequest, page: Page[IndexedBullet]) -> pb.SearchResponse:
    """Return the message of a page."""
    message = encode_response(page.response, page.results)
    message.next_page_token = encode_cursor(request, page.next_cursor)
    return message


def write_results(messages: Any, results: Results[IndexedBullet]) -> None:
    """Append results to the repeated field. Field by field is the fastest way."""
    for scored in results:
        message = messages.add()
        message.bullet.MergeFromString(scored.item.serialized_form)
        write_scores(message, scored)
        message.keyword_match = scored.raw_bm25 != 0.0


def write_scores(message: search_pb2.SearchResult | collection_pb2.Passage, scored: ScoredItem[Any]) -> None:
    """Write the scores of a result into its message."""
    message.vector_score = scored.vector_score
    message.bm25_score = scored.bm25_score
    message.combined_score = scored.combined_score
    message.raw_cosine = scored.raw_cosine
    message.raw_bm25 = scored.raw_bm25
    for part in scored.terms:
        message.terms.add(term=part.term, score=part.score)
