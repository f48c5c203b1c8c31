"""How well search finds what is relevant, measured on a set of documents, questions and judgements.

The set's form is BEIR's in one file: ``{"docs": {id: text}, "queries": {id: text}, "qrels": {query id: {document
id: grade}}}``. The measures are trec_eval's: nDCG with linear gain (Järvelin & Kekäläinen, TOIS 2002) and recall.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from chassis.errors import InvalidArgument, Violation
from libs.embedding.embedder import TextEmbedder
from libs.embedding.model import EmbeddingModel, Float32s
from services.search.domain.bm25 import LUCENE, OKAPI, Variant
from services.search.domain.entry import Entry
from services.search.domain.fusion import Fusion
from services.search.domain.index import HybridIndex
from services.search.domain.query import Filter
from services.search.domain.tokenizers import tokenizer
from services.search.domain.vector_weight import VectorWeight
from services.search.domain.view import LoopsInUse, Rules

DEPTH = 10
EVERYTHING = Filter()


class BadRetrievalSet(InvalidArgument):
    """A file that is not a retrieval set: where, and what is wrong with it."""

    reason = "BAD_RETRIEVAL_SET"

    def __init__(self, field: str, description: str) -> None:
        super().__init__(f"{field}: {description}", violations=[Violation(field, description)])


class RetrievalSet(BaseModel):
    """Documents, queries, and for some queries how relevant which documents are (0 is not, more is better)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    docs: dict[str, str] = Field(min_length=1)
    queries: dict[str, str] = Field(min_length=1)
    qrels: dict[str, dict[str, float]] = Field(min_length=1)

    @property
    def judged(self) -> dict[str, str]:
        """The queries that have at least one relevant document: only these can be measured."""
        return {
            query: text
            for query, text in self.queries.items()
            if any(grade > 0 for grade in self.qrels.get(query, {}).values())
        }


@dataclass(frozen=True, slots=True)
class RankingVariant:
    """A way to rank: how text is cut, which BM25, how both scores are fused with which weight of the vectors."""

    tokenizer: str
    bm25: Variant
    weight: VectorWeight
    fusion: str = "minmax"


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over the judged queries, each 0 to 1."""

    ndcg_at_10: float
    recall_at_5: float
    recall_at_10: float
    queries: int


NAMED_VARIANTS: Mapping[str, RankingVariant] = {
    "specified": RankingVariant("whitespace", OKAPI, VectorWeight(0.5, scaled=False)),
    "bm25": RankingVariant("mixed", LUCENE, VectorWeight(0.0)),
    "bm25_okapi": RankingVariant("mixed", OKAPI, VectorWeight(0.0)),
    "bm25_whitespace": RankingVariant("whitespace", OKAPI, VectorWeight(0.0)),
    "vectors": RankingVariant("mixed", LUCENE, VectorWeight(1.0, scaled=False)),
    "unscaled": RankingVariant("mixed", LUCENE, VectorWeight(0.5, scaled=False)),
    "sudachi": RankingVariant("sudachi", LUCENE, VectorWeight(0.5)),
    "rrf": RankingVariant("mixed", LUCENE, VectorWeight(0.5, scaled=False), "rrf"),
}
"""Ways to rank that are worth comparing with the service's own."""


def read_retrieval_set(path: Path) -> RetrievalSet:
    """The set in a JSON file. Raises `BadRetrievalSet`, and `OSError` for a file that cannot be read."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise BadRetrievalSet(path.name, f"is not JSON in UTF-8: {error}") from error
    try:
        retrieval_set = RetrievalSet.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadRetrievalSet(".".join(map(str, first["loc"])) or path.name, first["msg"]) from error
    if not retrieval_set.judged:
        raise BadRetrievalSet("qrels", "names no relevant document for any of the queries")
    return retrieval_set


async def evaluate(
    retrieval_set: RetrievalSet, embed: TextEmbedder, computing: LoopsInUse, variants: Mapping[str, RankingVariant]
) -> dict[str, Quality]:
    """The quality of each variant. Texts are embedded once for all of them. Raises `EmbeddingFailed`."""
    judged = retrieval_set.judged
    documents = await embed.embed_documents(list(retrieval_set.docs.values()))
    questions = await embed.embed_queries(list(judged.values()))
    return {
        name: _measured(retrieval_set, documents, questions, variant, embed.model, computing)
        for name, variant in variants.items()
    }


def _measured(
    retrieval_set: RetrievalSet,
    documents: Float32s,
    questions: Float32s,
    variant: RankingVariant,
    model: EmbeddingModel,
    computing: LoopsInUse,
) -> Quality:
    tokenize = tokenizer(variant.tokenizer)
    index = HybridIndex[str](documents.shape[1], tokenize, Rules(variant.bm25, computing))
    view = index.apply([Entry(name, text, name) for name, text in retrieval_set.docs.items()], documents)
    measures: list[tuple[float, float, float]] = []
    for (query, text), vector in zip(retrieval_set.judged.items(), questions, strict=True):
        fusion = Fusion(variant.weight.of(text, model), variant.fusion)
        found = [result.item for result in view.search(tokenize(text), vector, EVERYTHING, fusion, DEPTH).results]
        grades = {name: grade for name, grade in retrieval_set.qrels[query].items() if grade > 0}
        measures.append((ndcg(found, grades), recall(found[:5], grades), recall(found, grades)))
    means = np.mean(measures, axis=0)
    return Quality(float(means[0]), float(means[1]), float(means[2]), len(measures))


def ndcg(found: Sequence[str], grades: Mapping[str, float]) -> float:
    """Discounted gain of the documents found, over that of the best order; `grades` holds positive grades only."""
    ideal = sorted(grades.values(), reverse=True)[:DEPTH]
    return _discounted([grades.get(name, 0.0) for name in found[:DEPTH]]) / _discounted(ideal)


def recall(found: Sequence[str], grades: Mapping[str, float]) -> float:
    """Share of the relevant documents that were found."""
    return len(set(found) & set(grades)) / len(grades)


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
