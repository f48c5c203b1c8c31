from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from libs.sql.engines import url_of
from services.search.adapters.database import Database
from services.search.adapters.embedding_cache import StoredEmbeddings
from services.search.domain.embedding import Float32s, content_hash
from services.search.domain.errors import EmbeddingFailed
from services.search.usecases.embed_texts import EmbedTexts


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(str(tmp_path / "new folder" / "search.db"))
    await opened.open()
    yield opened
    await opened.close()


class Counting:
    trust, only_latin = 1.0, False

    def __init__(self, model: str = "counting") -> None:
        self.model = model
        self.calls: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> Float32s:
        self.calls.append(list(texts))
        return np.array([[len(text), 0.1] for text in texts], np.float32)


async def test_each_text_is_embedded_once_for_each_model(database: Database) -> None:  # S-17
    first = Counting()
    embed = EmbedTexts(first, StoredEmbeddings(database))
    vectors = await embed.documents(["aa", "b", "aa", ""])
    assert first.calls == [["aa", "b", ""]]
    again = Counting()
    repeated = await EmbedTexts(again, StoredEmbeddings(database)).documents(["b", "", "aa", "new"])
    assert again.calls == [["new"]]
    assert repeated[:3].tolist() == vectors[[1, 3, 0]].tolist()
    other = Counting("other")
    await EmbedTexts(other, StoredEmbeddings(database)).documents(["b"])
    assert other.calls == [["b"]]


async def test_many_texts(database: Database) -> None:
    embed = EmbedTexts(Counting(), StoredEmbeddings(database))
    texts = [f"text {i}" for i in range(1300)]
    assert (await embed.documents(texts)).tolist() == (await embed.documents(texts)).tolist()


async def test_queries_are_remembered_in_memory_up_to_a_number() -> None:
    model = Counting()

    class Nothing:
        async def get(self, model: str, hashes: Sequence[bytes]) -> dict[bytes, Float32s]:
            raise AssertionError("queries are not stored")

        put = get

    embed = EmbedTexts(model, Nothing(), remembered_queries=2)  # type: ignore[arg-type]
    await embed.queries(["a", "b", "a"])
    await embed.queries(["a", "c"])
    await embed.queries(["a"])
    await embed.queries(["b"])
    assert model.calls == [["a", "b"], ["c"], ["b"]]


async def test_a_broken_database_costs_time_and_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "search.db"
    file.write_bytes(b"this is not a database" * 100)
    database = Database(str(file))
    cache = StoredEmbeddings(database)
    assert (await EmbedTexts(Counting(), cache).documents(["text"])).tolist() == [[4.0, pytest.approx(0.1)]]
    await database.close()
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
async def test_a_wrong_reply_is_an_error_and_is_not_remembered(database: Database, reply: Float32s) -> None:  # S-16
    class Wrong(Counting):
        async def embed(self, texts: Sequence[str]) -> Float32s:
            return reply

    with pytest.raises(EmbeddingFailed, match=r"^Embedding failed: "):
        await EmbedTexts(Wrong(), StoredEmbeddings(database)).documents(["a", "b"])
    assert await StoredEmbeddings(database).get("counting", [content_hash("a"), content_hash("b")]) == {}


async def test_the_file_is_an_ordinary_sqlite_database(database: Database) -> None:
    await EmbedTexts(Counting(), StoredEmbeddings(database)).documents(["text"])
    with sqlite3.connect(database.url.database or "") as connection:
        (row,) = connection.execute("SELECT model, content_hash, vector FROM embeddings")
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    assert row == ("counting", content_hash("text"), np.array([4, 0.1], "<f4").tobytes())


def test_places_of_databases() -> None:
    assert url_of("some/file.db").render_as_string() == "sqlite:///some/file.db"
    assert url_of("postgresql://host/name").drivername == "postgresql+psycopg"
