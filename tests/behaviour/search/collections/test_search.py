"""Searches of collections: results, ranking and positions."""

from __future__ import annotations

import itertools

import pytest

from chassis.errors import InvalidArgument
from hansei.search.v1 import search_pb2
from libs.embedding.errors import EmbeddingFailed
from tests.behaviour.search.collections.service import HASHING, TEXTS, RunningSearch, chunk, direction, document


async def test_documents_are_found_by_meaning_and_by_words_in_two_languages(searching: RunningSearch) -> None:
    stored = await searching.put(*map(document, TEXTS))
    assert (stored.stored, stored.unchanged, stored.chunks, stored.revision) == (4, 0, 4, 4)
    for text, best in (("retrying calls", "retry"), ("冪等でない再試行", "saisei"), ("sleeping in a test", "sleep")):
        response = await searching.search(text)
        assert response.results[0].document_id == best
        assert len(response.results) == 4
        assert (response.revision, response.embedding_model) == (4, HASHING)
        scores = [passage.combined_score for passage in response.results]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] <= 1
        assert scores[-1] >= 0
    top = (await searching.search("retrying calls", top_k=1)).results
    assert [(passage.text, passage.start, passage.end) for passage in top] == [(TEXTS["retry"], 0, len(TEXTS["retry"]))]


async def test_a_replaced_document_is_found_by_its_new_text_only(searching: RunningSearch) -> None:
    await searching.put(*map(document, TEXTS))
    await searching.put(document("retry", "Bananas ripen in the sun."))
    response = await searching.search("bananas", explain=True)
    assert response.results[0].text == "Bananas ripen in the sun."
    assert sorted(await searching.find_ids("idempotent", top_k=100)) == sorted(TEXTS)
    matched = (await searching.search("idempotent", explain=True)).results
    assert [passage.document_id for passage in matched if passage.terms] == []


async def test_chunks_of_long_documents_have_their_positions(searching: RunningSearch) -> None:
    await searching.create("long", chunk_tokens=20, chunk_overlap=5)
    text = "\n\n".join(f"Paragraph {n} tells of the {word}. " * 3 for n, word in enumerate(["cat", "dog", "fish"] * 4))
    stored = await searching.put(document("book", text), collection="long")
    assert stored.chunks > 6
    response = await searching.search("fish", collection="long", top_k=100)
    assert len(response.results) == stored.chunks
    for passage in response.results:
        assert passage.text == text[passage.start : passage.end]
        assert passage.text == passage.text.strip()
    assert sorted(passage.chunk for passage in response.results) == list(range(stored.chunks))
    assert "fish" in response.results[0].text
    spans = sorted((passage.start, passage.end) for passage in response.results)
    assert any(after[0] < before[1] for before, after in itertools.pairwise(spans))
    shorter = await searching.put(document("book", "Only the cat."), collection="long")
    assert (shorter.chunks, (await searching.collection("long")).chunks) == (1, 1)
    assert [p.text for p in (await searching.search("fish", collection="long")).results] == ["Only the cat."]


async def test_filters_are_exact_and_apply_before_scaling(searching: RunningSearch) -> None:
    await searching.put(
        document("retry", lang="en", year="2025"),
        document("deadline", lang="en", year="2026"),
        document("saisei", lang="ja", year="2026"),
    )
    assert set(await searching.find_ids("retry", metadata={"lang": "en"})) == {"retry", "deadline"}
    assert await searching.find_ids("retry", metadata={"lang": "en", "year": "2026"}) == ["deadline"]
    for nothing in ({"lang": "e"}, {"lang": "en", "year": "2024"}, {"other": "en"}, {"lang": ""}):
        assert await searching.find_ids("retry", metadata=nothing) == []
    (alone,) = (await searching.search("retry", metadata={"lang": "ja"})).results
    assert (alone.vector_score, alone.bm25_score) == (0.5, 0.5)  # S-30: one candidate
    assert dict(alone.metadata) == {"lang": "ja", "year": "2026"}


async def test_explain_returns_the_matching_terms(searching: RunningSearch) -> None:
    await searching.put(*map(document, TEXTS))
    response = await searching.search("retry the idempotent sleep", explain=True)
    terms = {passage.document_id: {term.term for term in passage.terms} for passage in response.results}
    assert terms == {"retry": {"retri", "idempot"}, "deadline": set(), "saisei": set(), "sleep": {"sleep"}}
    for passage in response.results:
        assert sum(term.score for term in passage.terms) == pytest.approx(passage.raw_bm25, rel=1e-5)
    assert not any(passage.terms for passage in (await searching.search("retry")).results)


async def test_alpha_chooses_the_side_and_vectors_may_come_from_the_caller(searching: RunningSearch) -> None:
    await searching.put(
        document("right", "alpha", [chunk(0, 5, direction(8, 1.0))]),
        document("up", "beta", [chunk(0, 4, direction(8, 0.0, 2.0))]),
        document("none", "gamma", [chunk(0, 5, direction(8))]),
    )
    vector = chunk(0, 1, direction(8, 0.6, 0.8)).embedding
    response = await searching.search("alpha", alpha=1, embedding=vector)
    cosines = {passage.document_id: passage.raw_cosine for passage in response.results}
    assert cosines == {"up": pytest.approx(0.8), "right": pytest.approx(0.6), "none": 0.0}
    assert [passage.document_id for passage in response.results] == ["up", "right", "none"]
    assert (await searching.find_ids("alpha", alpha=0, embedding=vector))[0] == "right"
    ranks = await searching.search("beta", embedding=vector, fusion=search_pb2.FUSION_RECIPROCAL_RANK)
    assert ranks.results[0].document_id == "up"
    with pytest.raises(EmbeddingFailed, match="query of dimension 1536"):
        await searching.search("embedded by the service")


async def test_pages_of_a_search_show_one_ranking_while_others_write(searching: RunningSearch) -> None:
    await searching.put(*(document(f"d{n:02}", f"number {n} retry") for n in range(20)))
    whole = [passage.document_id for passage in (await searching.search("retry 7", top_k=18)).results]
    paged: list[str] = []
    token = ""
    while True:
        page = await searching.search("retry 7", top_k=18, page_size=5, page_token=token)
        paged.extend(passage.document_id for passage in page.results)
        await searching.put(document(f"new{len(paged)}", "retry 7 retry 7"))
        if not (token := page.next_page_token):
            break
        following = token
    assert paged == whole
    with pytest.raises(InvalidArgument, match="page_token must be the next_page_token"):
        await searching.search("another", top_k=18, page_size=5, page_token=following)
    with pytest.raises(InvalidArgument, match="page_token must be the next_page_token"):
        await searching.search("retry 7", top_k=18, page_size=5, page_token="bm9uc2Vuc2U=")
