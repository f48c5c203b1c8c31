from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, Engine, MetaData, create_engine

from libs.embedding.embedder import TextEmbedder
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.model import Float32s, Languages, SimilarityThresholds, hash_content
from libs.embedding.store import TableStore, define_embedding_table

TABLES = MetaData()
TABLE = define_embedding_table(TABLES)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'vectors.db'}")
    TABLES.create_all(engine)
    yield engine
    engine.dispose()


def create_store(database: Engine) -> TableStore:
    async def run_in_transaction(work: Callable[[Connection], Any]) -> Any:
        with database.begin() as connection:
            return work(connection)

    return TableStore(TABLE, run_in_transaction, run_in_transaction)


class CountingModel:
    trust, languages, thresholds = 1.0, Languages.SEVERAL, SimilarityThresholds(0.9, 0.5)

    def __init__(self, model_id: str = "counting") -> None:
        self.model_id = model_id
        self.calls: list[list[str]] = []

    async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        self.calls.append(list(texts))
        return np.array([[len(text), 0.1] for text in texts], np.float32)


async def test_each_text_is_embedded_once_for_each_model(database: Engine) -> None:  # S-17
    first = CountingModel()
    embed = TextEmbedder(first, create_store(database))
    vectors = await embed.embed_documents(["aa", "b", "aa", ""])
    assert first.calls == [["aa", "b", ""]]
    again = CountingModel()
    repeated = await TextEmbedder(again, create_store(database)).embed_documents(["b", "", "aa", "new"])
    assert again.calls == [["new"]]
    assert repeated[:3].tolist() == vectors[[1, 3, 0]].tolist()
    other = CountingModel("other")
    await TextEmbedder(other, create_store(database)).embed_documents(["b"])
    assert other.calls == [["b"]]


async def test_many_texts_are_embedded_in_one_call(database: Engine) -> None:
    embed = TextEmbedder(CountingModel(), create_store(database))
    texts = [f"text {i}" for i in range(1300)]
    assert (await embed.embed_documents(texts)).tolist() == (await embed.embed_documents(texts)).tolist()


async def test_embeddings_of_queries_are_cached_in_memory_up_to_a_limit() -> None:
    model = CountingModel()

    class EmptyStore:
        async def get(self, model: str, hashes: Sequence[bytes]) -> dict[bytes, Float32s]:
            raise AssertionError("queries are not stored")

        put = get

    embed = TextEmbedder(model, EmptyStore(), capacity=2)  # type: ignore[arg-type]
    await embed.embed_queries(["a", "b", "a"])
    await embed.embed_queries(["a", "c"])
    await embed.embed_queries(["a"])
    await embed.embed_queries(["b"])
    assert model.calls == [["a", "b"], ["c"], ["b"]]


async def test_a_query_that_others_evict_from_the_cache_meanwhile_keeps_its_embedding() -> None:
    class EvictingModel(CountingModel):
        async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
            if texts == ["new"]:
                await embed.embed_queries(["b", "c"])
            return await super().embed(texts, queries=queries)

    model = EvictingModel()
    embed = TextEmbedder(model, capacity=2)
    first = await embed.embed_queries(["a"])
    assert (await embed.embed_queries(["a", "new"]))[:1].tolist() == first.tolist()
    assert model.calls == [["a"], ["b", "c"], ["new"]]


async def test_a_broken_database_does_not_fail_an_embedding(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "vectors.db"
    file.write_bytes(b"this is not a database" * 100)
    database = create_engine(f"sqlite:///{file}")
    vectors = await TextEmbedder(CountingModel(), create_store(database)).embed_documents(["text"])
    assert vectors.tolist() == [[pytest.approx(0.9997, abs=1e-4), pytest.approx(0.025, abs=1e-4)]]
    database.dispose()
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 2


@pytest.mark.parametrize(
    "reply",
    [
        np.ones((1, 2), np.float32),
        np.array([[1, 2], [np.nan, 0]], np.float32),
        np.array([[1, 2], [np.inf, 0]], np.float32),
        [np.ones(2, np.float32), np.ones(3, np.float32)],
    ],
    ids=["count", "nan", "infinite", "unequal"],
)
async def test_a_wrong_reply_is_an_error_and_is_not_remembered(database: Engine, reply: Float32s) -> None:  # S-16
    class Wrong(CountingModel):
        async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
            return reply

    with pytest.raises(EmbeddingFailed, match=r"^Embedding failed: "):
        await TextEmbedder(Wrong(), create_store(database)).embed_documents(["a", "b"])
    assert await create_store(database).get("counting", [hash_content("a"), hash_content("b")]) == {}


async def test_the_table_holds_little_endian_float32_of_unit_length(database: Engine) -> None:
    vectors = await TextEmbedder(CountingModel(), create_store(database)).embed_documents(["text"])
    with sqlite3.connect(database.url.database or "") as connection:
        (row,) = connection.execute("SELECT model, content_hash, vector FROM embeddings")
    connection.close()
    assert row == ("counting", hash_content("text"), vectors[0].astype("<f4").tobytes())
    assert np.linalg.norm(vectors[0]) == pytest.approx(1.0, abs=1e-6)


async def test_embeddings_that_are_not_persisted_are_cached_in_memory(database: Engine) -> None:
    model = CountingModel()
    embedder = TextEmbedder(model, create_store(database))
    await embedder.embed_documents(["lesson"], persist=False)
    assert list(await embedder.get_cached(["lesson", "unknown"])) == ["lesson"]
    assert await TextEmbedder(model, create_store(database)).get_cached(["lesson"]) == {}
    assert model.calls == [["lesson"]]


async def test_vectors_of_other_models_are_found_by_their_id(database: Engine) -> None:
    await TextEmbedder(CountingModel("former"), create_store(database)).embed_documents(["text"])
    embedder = TextEmbedder(CountingModel(), create_store(database))
    assert list(await embedder.get_cached(["text"], "former")) == ["text"]
    assert await embedder.get_cached(["text"]) == {}
