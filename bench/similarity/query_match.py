"""Measure the cosine below which a query matches no text, for each embedding model.

`python -m bench.similarity.query_match FILE…` reads retrieval sets, `{"docs", "queries", "qrels"}`; the lessons of
`lessons.yaml` are one more, with a wording as the query of another. The queries of a set have an answer among its own
texts and none among those of other sets. The limit is the highest cosine that at most one in fifty queries with an
answer stays below with its best text. The table compares three rules for "nothing matches": `limit` (no word of the
query and no cosine from the limit on, as search decides), `words` (no word of the query) and `one_limit` (the same
cosine for all models): the share of queries without an answer that they find, and of queries with one that they deny.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from bench.report import machine, write
from bench.similarity.__main__ import LESSONS
from libs.embedding import minilm, multilingual
from libs.embedding.hashing import Hashing
from libs.embedding.local import LocalModel
from libs.embedding.model import Languages, normalize
from libs.embedding.terms import tokenize_mixed
from services.search.domain.tokenizers import compute_latin_share

DENIED = 0.02
ONE_LIMIT = 0.25
TEXTS = 40
"""Texts, and queries, that are taken of each set."""


@dataclass(frozen=True)
class QuerySet:
    """Texts, and queries that one of them answers."""

    name: str
    texts: Sequence[str]
    queries: Sequence[str]


@dataclass(frozen=True)
class BestMatches:
    """For each query the best cosine over some texts, and whether one has a word of it."""

    cosines: NDArray[np.float64]
    has_word: NDArray[np.bool_]

    def share_unmatched(self, limit: float) -> float:
        """Return the share of queries without a word and below the limit."""
        return float((~self.has_word & (self.cosines < limit)).mean())


def read_set(file: Path) -> QuerySet:
    """Return the first texts of a file, with one query for each."""
    content = json.loads(file.read_text(encoding="utf-8"))
    query_of = {text: query for query, texts in content["qrels"].items() for text in texts}
    texts = [text for text in content["docs"] if text in query_of][:TEXTS]
    return QuerySet(
        file.stem, [content["docs"][text] for text in texts], [content["queries"][query_of[text]] for text in texts]
    )


def read_lessons() -> QuerySet:
    """Return the lessons, one wording as the text and another as the query."""
    wordings = [item["same"] for item in yaml.safe_load(LESSONS.read_text(encoding="utf-8"))]
    return QuerySet("lessons", [same[1] for same in wordings], [same[0] for same in wordings])


def measure(model: LocalModel, sets: Sequence[QuerySet]) -> tuple[BestMatches, BestMatches]:
    """Return the best matches of the queries with an answer, and of those without."""
    texts = [normalize(model.compute(items.texts)) for items in sets]
    queries = [normalize(model.compute(items.queries, queries=True)) for items in sets]
    rows: tuple[list[tuple[float, bool]], list[tuple[float, bool]]] = ([], [])
    for query_set, query_vectors in zip(sets, queries, strict=True):
        for text_set, text_vectors in zip(sets, texts, strict=True):
            terms = set().union(*(tokenize_mixed(text) for text in text_set.texts))
            for query, best in zip(query_set.queries, (query_vectors @ text_vectors.T).max(1), strict=True):
                rows[query_set is not text_set].append((float(best), not terms.isdisjoint(tokenize_mixed(query))))
    answered, unanswered = (
        BestMatches(np.array([cosine for cosine, _ in found]), np.array([has_word for _, has_word in found], bool))
        for found in rows
    )
    return answered, unanswered


def find_limit(answered: BestMatches) -> float:
    """Return the highest cosine, in hundredths, that at most one in fifty queries with an answer stays below."""
    return float(np.floor(np.quantile(answered.cosines, DENIED) * 100) / 100)


def main() -> None:
    """Print and write the table."""
    sets = [read_lessons(), *(read_set(Path(file)) for file in sys.argv[1:])]
    models: list[LocalModel] = [Hashing()]
    if (folder := minilm.find_model_folder()) is not None:
        models.append(minilm.MiniLM(folder))
    if (folder := multilingual.find_model_folder()) is not None:
        models.append(multilingual.MultilingualE5(folder))
    rows = []
    for model in models:
        readable = [
            items
            for items in sets
            if model.languages is not Languages.LATIN
            or min(map(compute_latin_share, [*items.texts, *items.queries])) > 0.5
        ]
        answered, unanswered = measure(model, readable)
        limit = find_limit(answered)
        row: dict[str, object] = {"model": model.model_id, "sets": [items.name for items in readable], "limit": limit}
        for name, cosine in (("limit", limit), ("words", 2.0), ("one_limit", ONE_LIMIT)):
            row[f"{name}_found"] = round(unanswered.share_unmatched(cosine), 3)
            row[f"{name}_denied"] = round(answered.share_unmatched(cosine), 3)
        rows.append(row)
    write("query_match", {"machine": machine(), "texts": TEXTS, "rows": rows})


if __name__ == "__main__":
    main()
