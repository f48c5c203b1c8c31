"""The retrieval metrics, the file format, and the quality of the defaults on small sets."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from libs.embedding.embedder import TextEmbedder
from libs.embedding.hashing import Hashing
from libs.embedding.model import Float32s
from services.search.domain.bm25 import LUCENE
from services.search.domain.vector_weight import VectorWeight
from services.search.domain.view import LoopsInUse
from services.search.tests.engines import COMPILED
from services.search.usecases.evaluate import (
    NAMED_VARIANTS,
    BadRetrievalSet,
    RankingVariant,
    compute_ndcg,
    compute_recall,
    evaluate,
    read_retrieval_set,
)

DEFAULT = RankingVariant("mixed", LUCENE, VectorWeight(0.5))
ENGLISH = {
    "docs": {
        "d1": "The café's owner retried the failing requests with exponential backoff.",
        "d2": "Deadlines are handed down to every service that a call reaches.",
        "d3": "A tokenizer splits text into words before they are counted.",
        "d4": "SQLite writes ahead to a log, so readers never block.",
        "d5": "The library was closed because of the snow.",
    },
    "queries": {
        "q1": "What did the cafe do about failed requests?",
        "q2": "Which deadline does a called service have?",
        "q3": "how does SQLite let readers read while writing",
        "q4": "splitting words",
    },
    "qrels": {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d4": 2, "d2": 0}, "q4": {"d3": 1}},
}
JAPANESE = {
    "docs": {
        "d1": "東京都は日本の首都であり、人口は約1400万人である。",
        "d2": "京都の金閣寺は室町時代に建てられた。",
        "d3": "デッドラインは呼び出し先のサービスにも引き継がれる。",
        "d4": "失敗した要求は、間隔を空けて再試行する。",
        "d5": "富士山の高さは3776メートルである。",
    },
    "queries": {
        "q1": "日本の首都はどこですか？",
        "q2": "金閣寺はいつ建てられましたか",
        "q3": "ﾃﾞｯﾄﾞﾗｲﾝの引き継ぎ",
        "q4": "要求が失敗したら再試行すべきか",
        "q5": "富士山は何メートル？",
    },
    "qrels": {f"q{i}": {f"d{j}": 1} for i, j in ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5))},
}


class LocalHashing:
    model_id, trust, languages = Hashing.model_id, Hashing.trust, Hashing.languages
    thresholds = Hashing.thresholds

    async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        return Hashing().compute(texts)


class EmptyStore:
    async def get(self, model: str, hashes: Sequence[bytes]) -> Mapping[bytes, Float32s]:
        return {}

    async def put(self, model: str, vectors: Mapping[bytes, Float32s]) -> None: ...


def write_set(tmp_path: Path, content: object) -> Path:
    file = tmp_path / "set.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return file


@pytest.mark.parametrize("content", [ENGLISH, JAPANESE], ids=["english", "japanese"])
async def test_the_defaults_find_what_is_relevant(content: dict[str, object], tmp_path: Path) -> None:
    retrieval_set = read_retrieval_set(write_set(tmp_path, content))
    variants = {"default": DEFAULT, **NAMED_VARIANTS}
    quality = await evaluate(retrieval_set, TextEmbedder(LocalHashing(), EmptyStore()), LoopsInUse(COMPILED), variants)
    assert list(quality) == list(variants)
    assert quality["default"].ndcg_at_10 == pytest.approx(1.0)
    assert quality["default"].queries == len(retrieval_set.queries)
    worse = quality["bm25_whitespace"]
    assert worse.ndcg_low <= worse.ndcg_at_10 <= worse.ndcg_high
    assert worse.ndcg_low < worse.ndcg_high
    assert worse.ndcg_at_10 < 1.0


def test_ndcg_is_trec_eval_s() -> None:
    grades = {"a": 3.0, "b": 1.0}
    ideal = 3 + 1 / math.log2(3)
    assert compute_ndcg(["x", "a", "b"], grades) == pytest.approx((3 / math.log2(3) + 1 / 2) / ideal)
    assert compute_ndcg(["a", "b"], grades) == 1.0
    assert compute_ndcg(["x"] * 10 + ["a"], grades) == 0.0


def test_recall_is_the_share_of_found_documents() -> None:
    assert compute_recall(["a", "x"], {"a": 1.0, "b": 2.0}) == 0.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "set.json: is not JSON in UTF-8"),
        ("[]", "set.json: must be an object"),
        ({"docs": {}, "queries": {"q": "x"}, "qrels": {"q": {"d": 1}}}, "docs: must have 1 or more items"),
        ({"docs": {"d": 1}, "queries": {"q": "x"}, "qrels": {"q": {"d": 1}}}, "docs.d: must be a text"),
        ({"docs": {"d": "x"}, "queries": {"q": "x"}}, "qrels: is missing"),
        ({"docs": {"d": "x"}, "queries": {"q": "x"}, "qrels": {"q": {"d": 0}}}, "qrels: names no relevant document"),
    ],
)
def test_a_bad_file_is_named(content: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadRetrievalSet, match=message):
        read_retrieval_set(write_set(tmp_path, content))
