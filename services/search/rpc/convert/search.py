"""Between the messages of the contract and the domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from hansei.search.v1 import collection_pb2, search_pb2
from hansei.search.v1 import search_service_pb2 as pb
from libs.embedding.model import Float32s
from services.search.domain.bullet import Bullet
from services.search.domain.errors import WrongVector
from services.search.domain.query import DEFAULT_MIN_CONFIDENCE, DEFAULT_TOP_K, Results, Scored, SearchQuery
from services.search.rpc.servicer.pages import ranking_token
from services.search.usecases.pinned_rankings import Page
from services.search.usecases.search_playbook import Answer, Ask, QueryVector

FUSIONS = {
    search_pb2.FUSION_UNSPECIFIED: "",
    search_pb2.FUSION_MINMAX: "minmax",
    search_pb2.FUSION_RECIPROCAL_RANK: "rrf",
}


def ask_from(message: search_pb2.SearchQuery) -> Ask:
    """Return a query; unset fields get their defaults, set ones are taken as they are (S-36)."""
    sections = message.section_filter
    return Ask(
        SearchQuery(
            message.query_text,
            message.top_k if message.HasField("top_k") else DEFAULT_TOP_K,
            list(sections) if sections else None,
            message.min_confidence if message.HasField("min_confidence") else DEFAULT_MIN_CONFIDENCE,
        ),
        message.alpha if message.HasField("alpha") else None,
        FUSIONS[message.fusion],
        vector_from(message.embedding) if message.HasField("embedding") else None,
        message.explain,
    )


def vector_from(message: search_pb2.Embedding) -> QueryVector:
    """Return a vector that came with a request. Raises `WrongVector`."""
    if len(message.values) != 4 * message.dimension:
        raise WrongVector(f"has {len(message.values)} bytes, dimension {message.dimension} takes 4 bytes each")
    return QueryVector(message.model, np.frombuffer(message.values, "<f4"))


def embedding_message(vector: Float32s, model: str) -> search_pb2.Embedding:
    """Return a vector as little-endian float32."""
    return search_pb2.Embedding(values=vector.astype("<f4").tobytes(), dimension=len(vector), model=model)


def response_message(answer: Answer[Bullet], results: Results[Bullet] | None = None) -> pb.SearchResponse:
    """Return the answer to one query; with `results` only these of it."""
    response = pb.SearchResponse(
        revision=max(answer.revision, 0), embedding_model=answer.model, approximate=answer.ranking.preselected
    )
    write_results(response.results, answer.ranking.results if results is None else results)
    return response


def page_message(request: pb.SearchRequest, page: Page[Bullet]) -> pb.SearchResponse:
    """Return a page of the answer to one query."""
    response = response_message(page.answer, page.results)
    response.next_page_token = ranking_token(request, page.following)
    return response


def write_results(messages: Any, results: Results[Bullet]) -> None:
    """Append the bullets that were found to the repeated field; set one by one, which is the fastest way."""
    for scored in results:
        message = messages.add()
        message.bullet.MergeFromString(scored.item.origin)
        write_scores(message, scored)


def write_scores(message: search_pb2.SearchResult | collection_pb2.Passage, scored: Scored[Any]) -> None:
    """Write the scores of a result."""
    message.vector_score = scored.vector_score
    message.bm25_score = scored.bm25_score
    message.combined_score = scored.combined_score
    message.raw_cosine = scored.raw_cosine
    message.raw_bm25 = scored.raw_bm25
    for part in scored.terms:
        message.terms.add(term=part.term, score=part.score)
