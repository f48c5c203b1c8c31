"""Between the messages of the contract and the domain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, repeat
from struct import Struct

import numpy as np

from hansei.playbook.v1 import playbook_pb2
from hansei.search.v1 import search_pb2, search_service_pb2
from services.search.domain.bullet import Bullet
from services.search.domain.embedding import Float32s
from services.search.domain.errors import WrongVector
from services.search.domain.query import DEFAULT_MIN_CONFIDENCE, DEFAULT_TOP_K, Scored, SearchQuery, TermScore
from services.search.rpc.pages import ranking_token
from services.search.usecases.pinned_rankings import Page
from services.search.usecases.search_playbook import Answer, Ask, QueryVector

# Tags of the wire format: field 1 with a length; and the scores of a result, fields 2 to 6, eight bytes each.
_FIRST_FIELD = b"\x0a"
_SCORES = Struct("<BdBdBdBdBd")
_VECTOR, _BM25, _COMBINED, _COSINE, _RAW_BM25 = map(repeat, (0x11, 0x19, 0x21, 0x29, 0x31))

FUSIONS = {
    search_pb2.FUSION_UNSPECIFIED: "",
    search_pb2.FUSION_MINMAX: "minmax",
    search_pb2.FUSION_RECIPROCAL_RANK: "rrf",
}


def ask_from(message: search_pb2.SearchQuery) -> Ask:
    """A query; unset fields get their defaults, set ones are taken as they are (S-36)."""
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
    """A vector that came with a request. Raises `WrongVector`."""
    if len(message.values) != 4 * message.dimension:
        raise WrongVector(f"has {len(message.values)} bytes, dimension {message.dimension} takes 4 bytes each")
    return QueryVector(message.model, np.frombuffer(message.values, "<f4"))


def embedding_message(vector: Float32s, model: str) -> search_pb2.Embedding:
    """A vector as little-endian float32."""
    return search_pb2.Embedding(values=vector.astype("<f4").tobytes(), dimension=len(vector), model=model)


def response_message(answer: Answer[Bullet]) -> search_service_pb2.SearchResponse:
    """The answer to one query."""
    return search_service_pb2.SearchResponse.FromString(response_wire(answer))


def response_wire(answer: Answer[Bullet]) -> bytes:
    """The answer to one query in its wire form.

    Bullets are in theirs already, so the results are put together there, without a message for each; together they
    equal those of `scored_message`.
    """
    results = answer.ranking.results
    vector, bm25, combined, cosine, raw_bm25 = results.scores.tolist()
    tagged = (_VECTOR, vector, _BM25, bm25, _COMBINED, combined, _COSINE, cosine, _RAW_BM25, raw_bm25)
    origins = [item.origin for item in results.items]
    matched = [_terms(terms) for terms in results.terms] or [b""] * len(origins)
    heads = map(_head, map(len, origins), map(len, matched))
    parts = chain.from_iterable(zip(heads, origins, map(_SCORES.pack, *tagged), matched, strict=False))
    return b"".join(parts) + _said_of_all(max(answer.revision, 0), answer.model, answer.ranking.preselected)


@lru_cache(maxsize=16_384)
def _head(bullet: int, terms: int) -> bytes:
    """What stands before the bullet of a result: that a result follows, and how long, and a bullet, and how long.

    ``bullet`` and ``terms`` are the bytes of the result's bullet and terms.
    """
    bullet_head = _FIRST_FIELD + _varint(bullet)
    return _FIRST_FIELD + _varint(len(bullet_head) + bullet + _SCORES.size + terms) + bullet_head


@lru_cache(maxsize=256)
def _said_of_all(revision: int, model: str, approximate: bool) -> bytes:
    """What a response says besides its results."""
    response = search_service_pb2.SearchResponse(revision=revision, embedding_model=model, approximate=approximate)
    return response.SerializeToString()


def _terms(terms: Sequence[TermScore]) -> bytes:
    parts = [search_pb2.TermScore(term=part.term, score=part.score) for part in terms]
    return search_pb2.SearchResult(terms=parts).SerializeToString()


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def page_message(page: Page[Bullet]) -> search_service_pb2.SearchResponse:
    """A page of the answer to one query."""
    answer = page.answer
    response = response_message(answer._replace(ranking=answer.ranking._replace(results=page.results)))
    response.next_page_token = ranking_token(page.following)
    return response


def scored_message(scored: Scored[Bullet]) -> search_pb2.SearchResult:
    """A bullet that was found."""
    return search_pb2.SearchResult(
        bullet=playbook_pb2.Bullet.FromString(scored.item.origin),
        vector_score=scored.vector_score,
        bm25_score=scored.bm25_score,
        combined_score=scored.combined_score,
        raw_cosine=scored.raw_cosine,
        raw_bm25=scored.raw_bm25,
        terms=[search_pb2.TermScore(term=part.term, score=part.score) for part in scored.terms],
    )


def bullet_from(message: playbook_pb2.Bullet) -> Bullet:
    """The domain's bullet; a bullet without `searchable_text` is searched by its content."""
    return Bullet(
        id=message.id,
        section=message.section,
        content=message.content,
        searchable_text=message.searchable_text or message.content,
        keywords=tuple(message.keywords),
        helpful=message.helpful,
        harmful=message.harmful,
        source_trajectory=message.source_trajectory,
        served=message.state != playbook_pb2.BULLET_STATE_RETIRED,
        origin=message.SerializeToString(),
    )
