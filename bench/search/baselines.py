"""The ways people search by words and vectors together, behind one interface.

Each answers a hybrid query in the way its own documentation shows, in this process and on one thread where it lets us
choose. `add` makes one more document searchable before it returns. A baseline without its package is listed as missing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.search.corpus import DIMENSION, Corpus

TOP = 10
ALPHA = 0.5
POOL = 100
Vector = NDArray[np.float32]


class Engine(Protocol):
    """A hybrid search engine, loaded with a corpus by its constructor."""

    def search(self, text: str, vector: Vector) -> list[int]:
        """Return the numbers of the best documents."""
        ...

    def add(self, number: int, text: str, vector: Vector) -> None:
        """Make one more document searchable."""
        ...


def _fuse(lexical: NDArray[Any], cosine: NDArray[Any]) -> list[int]:
    def scale(scores: NDArray[Any]) -> NDArray[Any]:
        spread = scores.max() - scores.min()
        return (scores - scores.min()) / spread if spread > 1e-12 else np.full(scores.shape, 0.5)

    combined = ALPHA * scale(cosine) + (1 - ALPHA) * scale(lexical)
    best = np.argpartition(-combined, TOP)[:TOP]
    return best[np.argsort(-combined[best])].tolist()  # type: ignore[no-any-return]


def _fuse_ranks(*rankings: list[int]) -> list[int]:
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, number in enumerate(ranking):
            scores[number] = scores.get(number, 0.0) + 1.0 / (60 + rank)
    return sorted(scores, key=lambda number: -scores[number])[:TOP]


class HanseiEngine:
    """The engine of `services/search`."""

    def __init__(self, corpus: Corpus) -> None:
        from libs.embedding.terms import tokenize_mixed
        from services.search.adapters.loops import load_loops
        from services.search.domain.bm25 import LUCENE
        from services.search.domain.entry import Entry
        from services.search.domain.fusion import Fusion
        from services.search.domain.index import HybridIndex
        from services.search.domain.query import CandidateFilter
        from services.search.domain.view import LoopsInUse, RankingRules

        self._tokenize, self._entry = tokenize_mixed, Entry
        self._everything, self._fusion = CandidateFilter(min_confidence=0.3), Fusion(ALPHA)
        self._index: HybridIndex[int] = HybridIndex(
            DIMENSION, tokenize_mixed, RankingRules(LUCENE, LoopsInUse(load_loops()), sentence_weight=0.5)
        )
        self._index.apply([Entry(str(i), text, i) for i, text in enumerate(corpus.texts)], corpus.vectors)

    def search(self, text: str, vector: Vector) -> list[int]:
        terms = self._tokenize(text)
        ranking = self._index.view.search(terms, vector, self._everything, self._fusion, TOP)
        return [result.item for result in ranking.results]

    def add(self, number: int, text: str, vector: Vector) -> None:
        self._index.apply([self._entry(str(number), text, number)], vector[np.newaxis])


class FaissFlat:
    """Not a baseline but the floor: the bare scan of the same vectors."""

    def __init__(self, corpus: Corpus) -> None:
        import faiss

        self._index = faiss.IndexFlatIP(DIMENSION)
        self._index.add(corpus.vectors)

    def search(self, text: str, vector: Vector) -> list[int]:
        return self._index.search(vector[np.newaxis], TOP)[1][0].tolist()  # type: ignore[no-any-return]

    def add(self, number: int, text: str, vector: Vector) -> None:
        self._index.add(vector[np.newaxis])


class RankBM25:
    """rank_bm25 and FAISS, fused over all documents."""

    def __init__(self, corpus: Corpus) -> None:
        import faiss
        from rank_bm25 import BM25Okapi

        self._make = BM25Okapi
        self._texts = [text.split() for text in corpus.texts]
        self._bm25 = BM25Okapi(self._texts)
        self._index = faiss.IndexFlatIP(DIMENSION)
        self._index.add(corpus.vectors)

    def search(self, text: str, vector: Vector) -> list[int]:
        count = self._index.ntotal
        scores, numbers = self._index.search(vector[np.newaxis], count)
        cosine = np.empty(count, np.float32)
        cosine[numbers[0]] = scores[0]
        return _fuse(self._bm25.get_scores(text.split()), cosine)

    def add(self, number: int, text: str, vector: Vector) -> None:
        self._texts.append(text.split())
        self._bm25 = self._make(self._texts)
        self._index.add(vector[np.newaxis])


class BM25S:
    """bm25s and FAISS, fused over all documents."""

    def __init__(self, corpus: Corpus) -> None:
        import bm25s
        import faiss

        self._bm25s = bm25s
        self._texts = [text.split() for text in corpus.texts]
        self._build()
        self._vectors = corpus.vectors
        self._faiss: Any = faiss

    def _build(self) -> None:
        self._retriever = self._bm25s.BM25()
        self._retriever.index(self._texts, show_progress=False)

    def search(self, text: str, vector: Vector) -> list[int]:
        cosine = np.empty(len(self._vectors), np.float32)
        pointer = self._faiss.swig_ptr
        self._faiss.fvec_inner_products_ny(
            pointer(cosine), pointer(vector), pointer(self._vectors), DIMENSION, len(self._vectors)
        )
        return _fuse(self._retriever.get_scores(text.split()), cosine)

    def add(self, number: int, text: str, vector: Vector) -> None:
        self._texts.append(text.split())
        self._build()
        self._vectors = np.concatenate([self._vectors, vector[np.newaxis]])


class Tantivy:
    """tantivy and FAISS, their best hundred fused by rank."""

    def __init__(self, corpus: Corpus) -> None:
        import faiss
        import tantivy  # type: ignore[import-not-found, unused-ignore]

        self._tantivy = tantivy
        schema = tantivy.SchemaBuilder().add_integer_field("number", stored=True).add_text_field("text").build()
        self._lexical = tantivy.Index(schema)
        writer = self._lexical.writer(num_threads=1)
        for number, text in enumerate(corpus.texts):
            writer.add_document(tantivy.Document(number=number, text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._lexical.reload()
        self._index = faiss.IndexFlatIP(DIMENSION)
        self._index.add(corpus.vectors)

    def search(self, text: str, vector: Vector) -> list[int]:
        searcher = self._lexical.searcher()
        hits = searcher.search(self._lexical.parse_query(text, ["text"]), POOL).hits
        lexical = [searcher.doc(address)["number"][0] for _, address in hits]
        return _fuse_ranks(lexical, self._index.search(vector[np.newaxis], POOL)[1][0].tolist())

    def add(self, number: int, text: str, vector: Vector) -> None:
        writer = self._lexical.writer(num_threads=1)
        writer.add_document(self._tantivy.Document(number=number, text=text))
        writer.commit()
        self._lexical.reload()
        self._index.add(vector[np.newaxis])


class Chroma:
    """Chroma in memory: its vector query, and the same narrowed to documents with a word of it, fused by rank."""

    def __init__(self, corpus: Corpus) -> None:
        chromadb: Any = import_module("chromadb")
        client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
        name = f"bench-{len(corpus.texts)}"
        self._collection = client.create_collection(name, metadata={"hnsw:space": "ip"}, embedding_function=None)
        for start in range(0, len(corpus.texts), 5000):
            some = range(start, min(start + 5000, len(corpus.texts)))
            self._collection.add(
                ids=[str(number) for number in some],
                embeddings=corpus.vectors[start : some.stop],
                documents=[corpus.texts[number] for number in some],
            )

    def search(self, text: str, vector: Vector) -> list[int]:
        words: Any = {"$or": [{"$contains": word} for word in text.split()]}
        nearest = self._collection.query(query_embeddings=vector[np.newaxis], n_results=TOP)
        narrowed = self._collection.query(query_embeddings=vector[np.newaxis], n_results=TOP, where_document=words)
        return _fuse_ranks(*([int(number) for number in found["ids"][0]] for found in (nearest, narrowed)))

    def add(self, number: int, text: str, vector: Vector) -> None:
        self._collection.add(ids=[str(number)], embeddings=vector[np.newaxis], documents=[text])


class Lance:
    """LanceDB on disk: its own hybrid query, exact vectors and full-text index, fused by rank."""

    def __init__(self, corpus: Corpus) -> None:
        lancedb: Any = import_module("lancedb")
        self._folder = tempfile.TemporaryDirectory(prefix="bench-lance-")
        database = lancedb.connect(self._folder.name)
        rows = [
            {"number": number, "text": text, "vector": vector}
            for number, (text, vector) in enumerate(zip(corpus.texts, corpus.vectors, strict=True))
        ]
        self._table = database.create_table("documents", rows)
        self._table.create_fts_index("text")

    def search(self, text: str, vector: Vector) -> list[int]:
        query = self._table.search(query_type="hybrid").vector(vector).text(text).distance_type("dot").limit(TOP)
        return [row["number"] for row in query.select(["number"]).to_list()]

    def add(self, number: int, text: str, vector: Vector) -> None:
        self._table.add([{"number": number, "text": text, "vector": vector}])
        self._table.optimize()


class QdrantLocal:
    """qdrant-client's local mode: dense and sparse vectors, fused by rank by Qdrant itself."""

    def __init__(self, corpus: Corpus) -> None:
        from qdrant_client import QdrantClient, models

        self._models = models
        self._client = QdrantClient(":memory:")
        self._terms: dict[str, int] = {}
        self._client.create_collection(
            "documents",
            vectors_config={"dense": models.VectorParams(size=DIMENSION, distance=models.Distance.DOT)},
            sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        for start in range(0, len(corpus.texts), 1000):
            some = range(start, min(start + 1000, len(corpus.texts)))
            points = [self._point(number, corpus.texts[number], corpus.vectors[number]) for number in some]
            self._client.upsert("documents", points)

    def _sparse(self, text: str) -> Any:
        counts: dict[int, float] = {}
        for word in text.split():
            number = self._terms.setdefault(word, len(self._terms))
            counts[number] = counts.get(number, 0.0) + 1.0
        return self._models.SparseVector(indices=list(counts), values=list(counts.values()))

    def _point(self, number: int, text: str, vector: Vector) -> Any:
        vectors = {"dense": vector.tolist(), "words": self._sparse(text)}
        return self._models.PointStruct(id=number, vector=vectors)

    def search(self, text: str, vector: Vector) -> list[int]:
        models = self._models
        both = [
            models.Prefetch(query=vector.tolist(), using="dense", limit=POOL),
            models.Prefetch(query=self._sparse(text), using="words", limit=POOL),
        ]
        fusion = models.FusionQuery(fusion=models.Fusion.RRF)
        found = self._client.query_points("documents", prefetch=both, query=fusion, limit=TOP)
        return [int(point.id) for point in found.points]

    def add(self, number: int, text: str, vector: Vector) -> None:
        self._client.upsert("documents", [self._point(number, text, vector)])


class SQLite:
    """SQLite in a file: FTS5 and sqlite-vec, their best hundred fused by rank."""

    def __init__(self, corpus: Corpus) -> None:
        sqlite_vec: Any = import_module("sqlite_vec")
        # The one of the standard library is often built without extensions.
        sqlite3: Any = import_module("pysqlite3")
        self._folder = tempfile.TemporaryDirectory(prefix="bench-sqlite-")
        self._connection: Any = sqlite3.connect(Path(self._folder.name) / "documents.db")
        self._connection.enable_load_extension(True)
        sqlite_vec.load(self._connection)
        self._connection.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE VIRTUAL TABLE words USING fts5(text);"
            f"CREATE VIRTUAL TABLE vectors USING vec0(vector float[{DIMENSION}] distance_metric=cosine);"
        )
        numbered = enumerate(zip(corpus.texts, corpus.vectors, strict=True))
        with self._connection:
            for number, (text, vector) in numbered:
                self._put(number, text, vector)

    def _put(self, number: int, text: str, vector: Vector) -> None:
        self._connection.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", (number, text))
        self._connection.execute("INSERT INTO vectors(rowid, vector) VALUES (?, ?)", (number, vector.tobytes()))

    def search(self, text: str, vector: Vector) -> list[int]:
        words = " OR ".join(f'"{word}"' for word in text.split())
        lexical = self._connection.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (words, POOL)
        ).fetchall()
        dense = self._connection.execute(
            "SELECT rowid FROM vectors WHERE vector MATCH ? AND k = ?", (vector.tobytes(), POOL)
        ).fetchall()
        return _fuse_ranks([row[0] for row in lexical], [row[0] for row in dense])

    def add(self, number: int, text: str, vector: Vector) -> None:
        with self._connection:
            self._put(number, text, vector)


OURS = "hansei"

BASELINES: dict[str, tuple[tuple[str, ...], Callable[[Corpus], Engine]]] = {
    OURS: (("numba",), HanseiEngine),
    "FAISS flat alone (floor)": (("faiss",), FaissFlat),
    "rank_bm25 + FAISS": (("rank_bm25",), RankBM25),
    "bm25s + FAISS": (("bm25s",), BM25S),
    "tantivy + FAISS": (("tantivy",), Tantivy),
    "LanceDB": (("lancedb",), Lance),
    "SQLite FTS5 + sqlite-vec": (("sqlite_vec", "pysqlite3"), SQLite),
    "Chroma": (("chromadb",), Chroma),
    "qdrant-client local": (("qdrant_client",), QdrantLocal),
}


def list_installed() -> dict[str, Callable[[Corpus], Engine]]:
    """Return the engines whose packages are installed."""
    return {name: make for name, (packages, make) in BASELINES.items() if all(map(find_spec, packages))}


def list_missing() -> list[str]:
    """Return the engines whose packages are not installed."""
    return [name for name in BASELINES if name not in list_installed()]
