"""Search over gRPC, following a feed over gRPC, with embeddings over HTTP: everything real but the playbooks' owner."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chassis
from chassis.errors import HanseiError, InvalidArgument, NotFound
from hansei.playbook.v1 import playbook_pb2
from hansei.search.v1 import search_pb2, search_service_pb2_grpc
from hansei.search.v1 import search_service_pb2 as pb
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.hashing import Hashing
from services.search.bootstrap import build
from services.search.settings import SearchSettings
from tests.fakes.openai_answers import Answer, ModelRequest, embeddings, error
from tests.fakes.openai_server import OpenAIServer
from tests.fakes.playbook_feed import PlaybookFeed
from tests.support.policies import without_retries

MAIN = {
    "alpha beta": [1.0, 0.0],
    "alpha gamma gamma": [0.0, 1.0],
    "delta": [0.6, 0.8],
    "epsilon zeta": [0.0, 0.0],
    "eta": [-1.0, 0.0],
    "beta gamma": [1.0, 0.0],
}
MAIN_BULLETS = [
    playbook_pb2.Bullet(id=f"b{i}", content=text, searchable_text=text, keywords=["beta"] if text == "delta" else [])
    for i, text in enumerate(list(MAIN)[:5], 1)
]


def answer_with(vectors: Mapping[str, Sequence[float]]) -> Answer:
    def answer(request: ModelRequest) -> Any:
        return embeddings(vectors=[vectors[text] for text in request.texts])(request)

    return answer


class Models(OpenAIServer):
    """An embedding model that answers every request alike until the test changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: Answer = embeddings()
        self.script_embeddings(*[lambda request: self.answer(request)] * 1000)


@pytest.fixture
def models() -> Iterator[Models]:
    with Models() as running:
        yield running


@pytest.fixture(params=["built-in", "reference"])
def searching(request: pytest.FixtureRequest, models: Models, tmp_path: Path) -> Callable[..., Any]:
    """Search with each of its engines."""

    @asynccontextmanager
    async def running(feed: PlaybookFeed | None = None, **settings: Any) -> AsyncIterator[tuple[Any, PlaybookFeed]]:
        playbook = feed or PlaybookFeed()
        chosen = SearchSettings.model_validate(
            {
                "openai_api_key": "secret-key",
                "openai_base_url": models.base_url,
                "llm_retries": 0,
                "search_database_url": str(tmp_path / "search.db"),
                "search_snapshot_dir": str(tmp_path / "snapshots"),
                "search_tokenizer": "whitespace",
                "search_engine": request.param,
                **settings,
            }
        )

        def services(own: chassis.OwnServer) -> list[chassis.Service]:
            peers = chassis.Peers({"curator": "self"}, own=own)
            return [playbook.service(), build(chosen, peers)]

        async with chassis.serve(services) as served:
            client = chassis.Peers({"search": served.address}, policies=without_retries())
            try:
                yield search_service_pb2_grpc.SearchServiceStub(client.get_channel("search")), playbook
            finally:
                await client.close()

    return running


def query(text: str = "beta gamma", **fields: Any) -> search_pb2.SearchQuery:
    return search_pb2.SearchQuery(query_text=text, **fields)


def scores(results: Sequence[search_pb2.SearchResult]) -> dict[str, float]:
    return {result.bullet.id: result.combined_score for result in results}


@pytest.mark.parametrize(
    ("alpha", "combined", "order"),
    [
        (None, [0.624422, 0.75, 0.524422, 0.25, 0], "b2 b1 b3 b4 b5"),
        (0.7, [0.774653, 0.65, 0.634653, 0.35, 0], "b1 b2 b3 b4 b5"),
        (1.0, [1, 0.5, 0.8, 0.5, 0], "b1 b3 b2 b4 b5"),
        (0.0, [0.248845, 1, 0.248845, 0, 0], "b2 b1 b3 b4 b5"),
    ],
)
async def test_the_specified_vectors_hold_over_the_index_and_without_it(
    alpha: float | None, combined: list[float], order: str, models: Models, searching: Any
) -> None:  # S-29 to S-36, section 6
    models.answer = answer_with(MAIN)
    async with searching() as (search, playbook):
        revision = playbook.add(*MAIN_BULLETS)
        indexed = await search.Search(pb.SearchRequest(dataset="d", query=query(alpha=alpha), min_revision=revision))
        stateless = await search.RankBullets(pb.RankBulletsRequest(query=query(alpha=alpha), bullets=MAIN_BULLETS))
        for results in (indexed.results, stateless.results):
            assert [result.bullet.id for result in results] == order.split()
            assert [scores(results)[f"b{i}"] for i in range(1, 6)] == pytest.approx(combined, abs=1e-6)
            raw = {result.bullet.id: (result.raw_cosine, result.raw_bm25) for result in results}
            assert raw["b3"] == pytest.approx((0.6, 0.336472), abs=1e-6)
            assert {result.bullet.id for result in results if result.keyword_match} == {"b1", "b2", "b3"}
        assert (indexed.revision, indexed.embedding_model) == (1, "text-embedding-3-small")
        assert not indexed.approximate
        assert indexed.alpha == stateless.alpha == (0.5 if alpha is None else alpha)


async def test_field_presence_distinguishes_unset_from_zero(models: Models, searching: Any) -> None:  # S-36
    models.answer = answer_with(MAIN)
    async with searching() as (search, playbook):
        doubted, bad = (playbook_pb2.Bullet(id=f"bad{votes}", content="eta", harmful=votes) for votes in (1, 2))
        revision = playbook.add(*MAIN_BULLETS, doubted, bad)

        async def count_results(**fields: Any) -> int:
            search_request = pb.SearchRequest(dataset="d", query=query(**fields), min_revision=revision)
            return len((await search.Search(search_request)).results)

        assert await count_results() == 6  # one harmful vote hides no bullet
        assert await count_results(min_confidence=0.3) == 5  # S-11
        assert await count_results(min_confidence=0) == 7
        stateless = pb.RankBulletsRequest(query=query(), bullets=[*MAIN_BULLETS, doubted, bad])
        assert len((await search.RankBullets(stateless)).results) == 6
        assert await count_results(top_k=2) == 2
        assert await count_results(section_filter=["nowhere"]) == 0


@pytest.mark.parametrize(
    ("fields", "message", "field"),
    [
        ({"top_k": 0}, "top_k must be >= 1", "query.top_k"),
        ({"top_k": -5}, "top_k must be >= 1", "query.top_k"),
        ({"min_confidence": math.nan}, "min_confidence must be a number", "query.min_confidence"),
        ({"alpha": 1.5}, "alpha must be between 0 and 1", "query.alpha"),
        ({"alpha": math.nan}, "alpha must be between 0 and 1", "query.alpha"),
    ],
)
async def test_bad_queries_are_refused(
    fields: dict[str, Any], message: str, field: str, searching: Any
) -> None:  # S-02, S-37, S-40
    async with searching() as (search, _):
        for call in (
            search.Search(pb.SearchRequest(dataset="d", query=query(**fields))),
            search.RankBullets(pb.RankBulletsRequest(query=query(**fields))),
        ):
            with pytest.raises(InvalidArgument) as caught:
                await call
            assert str(caught.value) == message
            assert [violation.field for violation in caught.value.violations] == [field]


@pytest.mark.parametrize("dataset", ["", "a b", "../x", "日本"])
async def test_bad_datasets_are_refused(dataset: str, searching: Any) -> None:
    async with searching() as (search, _):
        with pytest.raises(InvalidArgument, match="Invalid dataset name") as caught:
            await search.Search(pb.SearchRequest(dataset=dataset, query=query()))
        assert caught.value.violations[0].field == "dataset"


def vector(values: Sequence[float], dimension: int | None = None, model: str = "text-embedding-3-small") -> Any:
    packed = np.asarray(values, "<f4").tobytes()
    return search_pb2.Embedding(values=packed, dimension=dimension or len(values), model=model)


async def test_a_search_uses_the_vectors_of_the_caller(models: Models, searching: Any) -> None:
    models.answer = answer_with({text: MAIN[text] for text in list(MAIN)[:5]})
    async with searching() as (search, playbook):
        revision = playbook.add(*MAIN_BULLETS)
        search_request = pb.SearchRequest(
            dataset="d", query=query(embedding=vector([2.0, 0.0]), alpha=1), min_revision=revision
        )
        response = await search.Search(search_request)
        assert [result.bullet.id for result in response.results] == ["b1", "b3", "b2", "b4", "b5"]
        for bad, message in (
            (vector([1.0, 0.0, 0.0]), "has dimension 3, the index has 2"),
            (vector([1.0, 0.0], dimension=3), "has 8 bytes"),
            (vector([1.0, math.nan]), "not finite"),
            (vector([1.0, 0.0], model="another"), "made by 'another'"),
        ):
            search_request.query.embedding.CopyFrom(bad)
            with pytest.raises(InvalidArgument, match=message):
                await search.Search(search_request)


async def test_bullets_of_the_caller_may_share_an_id_and_bring_their_query_s_vector(
    models: Models, searching: Any
) -> None:  # S-36
    models.answer = answer_with({"delta": [0.6, 0.8], "eta": [-1.0, 0.0]})
    twins = [playbook_pb2.Bullet(id="same", content=text) for text in ("eta", "delta")]
    async with searching() as (search, _):
        search_request = query("delta", embedding=vector([1.0, 0.0]), explain=True)
        response = await search.RankBullets(pb.RankBulletsRequest(query=search_request, bullets=twins))
        assert [result.bullet for result in response.results] == twins[::-1]
        assert [[term.term for term in result.terms] for result in response.results] == [["delta"], []]


async def test_a_failing_embedder_is_unavailable_and_never_bm25_only(
    models: Models, searching: Any
) -> None:  # S-37, S-43
    models.answer = answer_with(MAIN)
    async with searching() as (search, playbook):
        revision = playbook.add(*MAIN_BULLETS)
        models.answer = error(500, "the model is gone")
        for call in (
            search.Search(pb.SearchRequest(dataset="d", query=query("never asked"), min_revision=revision)),
            search.RankBullets(pb.RankBulletsRequest(query=query("never asked"), bullets=MAIN_BULLETS)),
        ):
            with pytest.raises(EmbeddingFailed, match=r"^Embedding failed: ") as caught:
                await call
            assert caught.value.retry_after
            assert "secret-key" not in str(caught.value)


@pytest.mark.parametrize(
    "vectors", [[[1.0, 0.0]] * 4, [[1.0]] + [[1.0, 0.0]] * 4, [[1.0, float("nan")]] * 5], ids=["few", "unequal", "nan"]
)
async def test_a_wrong_embedding_reply_is_unavailable(
    vectors: list[list[float]], models: Models, searching: Any
) -> None:  # S-16, S-37
    models.answer = lambda request: embeddings(vectors=vectors if len(request.texts) > 1 else [[1.0, 0.0]])(request)
    async with searching() as (search, _):
        with pytest.raises(EmbeddingFailed, match=r"^Embedding failed: "):
            await search.RankBullets(pb.RankBulletsRequest(query=query(), bullets=MAIN_BULLETS))


async def test_a_batch_is_answered_at_one_revision_as_each_query_would_be(models: Models, searching: Any) -> None:
    models.answer = answer_with({**MAIN, "nope": [0.0, 1.0]})
    async with searching() as (search, playbook):
        revision = playbook.add(*MAIN_BULLETS)
        queries = [query(), query("nope", top_k=2), query(alpha=0, fusion=search_pb2.FUSION_RECIPROCAL_RANK)]
        batch = await search.BatchSearch(pb.BatchSearchRequest(dataset="d", queries=queries, min_revision=revision))
        single = [await search.Search(pb.SearchRequest(dataset="d", query=item)) for item in queries]
        assert list(batch.responses) == single
        assert [len(response.results) for response in batch.responses] == [5, 2, 5]


async def test_pages_show_one_ranking_while_the_playbook_changes(models: Models, searching: Any) -> None:
    models.answer = embeddings()
    async with searching() as (search, playbook):
        texts = [f"beta number {n}" for n in range(11)]
        revision = playbook.add(*(playbook_pb2.Bullet(id=f"p{n}", content=text) for n, text in enumerate(texts)))

        async def page(token: str = "", text: str = "beta 3") -> Any:
            search_request = query(text, top_k=10)
            return await search.Search(
                pb.SearchRequest(
                    dataset="d", query=search_request, min_revision=revision, page_size=4, page_token=token
                )
            )

        search_request = pb.SearchRequest(dataset="d", query=query("beta 3", top_k=10), min_revision=revision)
        whole = await search.Search(search_request)
        pages = [await page()]
        while token := pages[-1].next_page_token:
            newer = playbook.add(playbook_pb2.Bullet(id=f"new{len(pages)}", content="beta 3"))
            await search.Search(pb.SearchRequest(dataset="d", query=query(), min_revision=newer))
            pages.append(await page(token))
        assert [len(item.results) for item in pages] == [4, 4, 2]
        assert [result for item in pages for result in item.results] == list(whole.results)
        assert {item.revision for item in pages} == {revision}
        assert whole.next_page_token == ""
        for wrong, text in ((pages[0].next_page_token, "another"), ("bm9uc2Vuc2U=", "beta 3"), ("???", "beta 3")):
            with pytest.raises(InvalidArgument, match="page_token must be the next_page_token of the previous page"):
                await page(wrong, text)


async def test_explain_returns_the_matching_terms(models: Models, searching: Any) -> None:
    models.answer = answer_with({**MAIN, "beta beta nope gamma": [0.0, 1.0]})
    async with searching() as (search, playbook):
        revision = playbook.add(*MAIN_BULLETS)
        search_request = query("beta beta nope gamma", explain=True)
        response = await search.Search(pb.SearchRequest(dataset="d", query=search_request, min_revision=revision))
        terms = {r.bullet.id: {term.term: term.score for term in r.terms} for r in response.results}
        assert {name: sorted(terms_) for name, terms_ in terms.items()} == {
            "b1": ["beta"],
            "b2": ["gamma"],
            "b3": ["beta"],
            "b4": [],
            "b5": [],
        }
        for result in response.results:
            assert sum(term.score for term in result.terms) == pytest.approx(result.raw_bm25, abs=1e-9)


async def test_results_carry_the_whole_bullet(models: Models, searching: Any) -> None:
    models.answer = embeddings()
    full = playbook_pb2.Bullet(
        id="x",
        section="s",
        content="日本語の本文",
        keywords=["鍵"],
        helpful=3,
        source_trajectory="t",
        created_revision=1,
        sources=[playbook_pb2.Source(trajectory_id="t", steps=[1, 2])],
    )
    async with searching() as (search, playbook):
        revision = playbook.add(full)
        response = await search.Search(pb.SearchRequest(dataset="d", query=query(), min_revision=revision))
        assert [result.bullet for result in response.results] == [full]


async def test_a_restart_embeds_nothing_again(models: Models, searching: Any) -> None:  # S-17
    models.answer = answer_with(MAIN)
    for _ in range(2):
        async with searching() as (search, playbook):
            revision = playbook.add(*MAIN_BULLETS)
            await search.Search(pb.SearchRequest(dataset="d", query=query(), min_revision=revision))
    assert [len(request.texts) for request in models.requests] == [5, 1, 1]


@pytest.mark.parametrize("searching", ["built-in"], indirect=True)  # the reference engine stores no snapshot
async def test_a_restart_follows_the_playbook_before_its_first_search(models: Models, searching: Any) -> None:
    models.answer = answer_with(MAIN)
    async with searching() as (search, playbook):
        await asyncio.sleep(0.2)
        assert not playbook.watched.is_set()  # there is no snapshot yet
        revision = playbook.add(*MAIN_BULLETS)
        await search.Search(pb.SearchRequest(dataset="d", query=query(), min_revision=revision))
    async with searching() as (search, playbook):
        await asyncio.wait_for(playbook.watched.wait(), 30)


@pytest.mark.parametrize("searching", ["built-in"], indirect=True)  # the reference engine stores no snapshot
async def test_another_model_takes_over_when_it_has_embedded_everything(models: Models, searching: Any) -> None:
    async with searching(embedding_provider="hashing") as (search, playbook):
        revision = playbook.add(*MAIN_BULLETS)
        await search.Search(pb.SearchRequest(dataset="d", query=query(), min_revision=revision))
    models.answer = error(503, "not yet")
    async with searching(playbook) as (search, _):  # search follows the playbook as soon as it starts
        search_request = pb.SearchRequest(dataset="d", query=query(), min_revision=revision)
        for _ in range(3):
            response = await search.Search(search_request)
            assert (response.embedding_model, len(response.results)) == (Hashing.model_id, 5)
        status = await search.GetIndexStatus(pb.GetIndexStatusRequest(dataset="d"))
        assert (status.embedding_model, status.dimension) == (Hashing.model_id, 1536)
        models.answer = answer_with(MAIN)
        async with asyncio.timeout(30):
            while (response := await search.Search(search_request)).embedding_model == Hashing.model_id:
                assert len(response.results) == 5
        assert response.embedding_model == "text-embedding-3-small"
        assert {result.bullet.id: result.raw_cosine for result in response.results}["b3"] == pytest.approx(
            0.6, abs=1e-6
        )
    async with searching(playbook) as (search, _):
        response = await search.Search(search_request)
        assert response.embedding_model == "text-embedding-3-small"


async def test_the_start_deletes_snapshots_that_another_process_did_not_finish(searching: Any, tmp_path: Path) -> None:
    folder = tmp_path / "snapshots" / "collections"
    folder.mkdir(parents=True)
    left, current, snapshot = folder / "d.index.7.tmp", folder / "e.index.8.tmp", folder / "d.index"
    other = folder / "f.tmp"
    for path in (left, current, snapshot, other):
        path.write_bytes(b"part")
    for path in (left, snapshot, other):
        os.utime(path, (0, 0))
    async with searching():
        assert sorted(folder.iterdir()) == [snapshot, current, other]


async def test_a_dataset_that_does_not_exist_is_not_an_empty_one(searching: Any, tmp_path: Path) -> None:
    async with searching() as (search, playbook):
        playbook.exists = False
        reads = [
            search.Search(pb.SearchRequest(dataset="d", query=query())),
            search.Search(pb.SearchRequest(dataset="d", query=query(), page_size=2)),
            search.BatchSearch(pb.BatchSearchRequest(dataset="d", queries=[query()])),
            search.GetIndexStatus(pb.GetIndexStatusRequest(dataset="d")),
        ]
        for read in reads:
            with pytest.raises(NotFound, match='dataset "d" does not exist') as caught:
                await read
            assert caught.value.reason == "DATASET_NOT_FOUND"
        allowed = await search.Search(pb.SearchRequest(dataset="d", query=query(), allow_missing=True))
        assert (list(allowed.results), allowed.revision) == ([], 0)
    assert not list((tmp_path / "snapshots").rglob("*.*"))


async def test_the_status_of_an_index_and_embeddings_are_returned(models: Models, searching: Any) -> None:
    models.answer = answer_with(MAIN)
    async with searching() as (search, playbook):
        revision = playbook.add(*MAIN_BULLETS)
        await search.Search(pb.SearchRequest(dataset="d", query=query(), min_revision=revision))
        status = await search.GetIndexStatus(pb.GetIndexStatusRequest(dataset="d"))
        assert (status.revision, status.bullets, status.dimension) == (1, 5, 2)
        assert (status.embedding_model, status.tokenizer) == ("text-embedding-3-small", "whitespace")
        assert status.feed_error == ""
        assert status.last_event_at.seconds
        response = await search.Embed(pb.EmbedRequest(texts=["delta", "eta"]))
        read = [np.frombuffer(embedding.values, "<f4").tolist() for embedding in response.embeddings]
        assert read == [pytest.approx([0.6, 0.8]), [-1.0, 0.0]]
        assert response.embeddings[0].dimension == 2


async def test_the_default_of_the_service_reads_japanese(searching: Any) -> None:
    async with searching(embedding_provider="hashing", search_tokenizer="mixed") as (search, playbook):
        texts = ["再試行は冪等な呼び出しだけに行う", "締め切りは呼び出し先に引き継ぐ", "Tests must not sleep"]
        revision = playbook.add(*(playbook_pb2.Bullet(id=f"j{i}", content=text) for i, text in enumerate(texts)))
        for text, best in (
            ("冪等でない場合の再試行", "j0"),
            ("締め切りの引き継ぎ", "j1"),
            ("sleeping in a test", "j2"),
        ):
            response = await search.Search(pb.SearchRequest(dataset="d", query=query(text), min_revision=revision))
            assert response.results[0].bullet.id == best


async def test_a_revision_in_the_future_is_named_within_the_deadline(models: Models, searching: Any) -> None:
    models.answer = answer_with(MAIN)
    async with searching() as (search, playbook):
        playbook.add(*MAIN_BULLETS)
        with pytest.raises(HanseiError, match="revision 9 did not arrive") as caught:
            await search.Search(pb.SearchRequest(dataset="d", query=query(), min_revision=9), timeout=0.5)
        assert caught.value.code == "DEADLINE_EXCEEDED"
