"""Evaluates the retrieval quality on a set of documents, queries and relevance judgements.

The set has the form of BEIR in one file: ``{"docs": {id: text}, "queries": {id: text}, "qrels": {query id: {document
id: grade}}}``. The metrics are those of trec_eval: nDCG with linear gain (Järvelin & Kekäläinen, TOIS 2002) and recall.
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
from chassis.field_errors import build_field_path, describe_rule
from libs.embedding.embedder import TextEmbedder
from libs.embedding.model import EmbeddingModel, Float32s
from services.search.domain.bm25 import LUCENE, OKAPI, Variant
from services.search.domain.entry import Entry
from services.search.domain.index import HybridIndex
from services.search.domain.query import CandidateFilter
from services.search.domain.tokenizers import get_tokenizer
from services.search.domain.vector_weight import VectorWeight
from services.search.domain.view import LoopsInUse, RankingRules

DEPTH = 10
RESAMPLES = 1000
NO_FILTER = CandidateFilter()


class BadRetrievalSet(InvalidArgument):
    """A file is not a retrieval set: the field, and the broken rule."""

    reason = "BAD_RETRIEVAL_SET"

    def __init__(self, field: str, description: str) -> None:
        super().__init__(f"{field}: {description}", violations=[Violation(field, description)])


class RetrievalSet(BaseModel):
    """Documents, queries, and grades of relevance by query and document (0: not relevant; higher is better)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    docs: dict[str, str] = Field(min_length=1)
    queries: dict[str, str] = Field(min_length=1)
    qrels: dict[str, dict[str, float]] = Field(min_length=1)

    @property
    def judged_queries(self) -> dict[str, str]:
        """Return the queries that have at least one relevant document: only these can be evaluated."""
        return {
            query: text
            for query, text in self.queries.items()
            if any(grade > 0 for grade in self.qrels.get(query, {}).values())
        }


@dataclass(frozen=True, slots=True)
class RankingVariant:
    """A way to rank: tokeniser, BM25 formula, weight of the vector score, fusion, weight of the best sentence."""

    tokenizer: str
    bm25: Variant
    weight: VectorWeight
    fusion: str = "minmax"
    sentence_weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over the judged queries, each in 0..1; nDCG with its 95 % interval, by resampling the queries."""

    ndcg_at_10: float
    ndcg_low: float
    ndcg_high: float
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
    "whole_entries": RankingVariant("mixed", LUCENE, VectorWeight(0.5)),
    "sudachi": RankingVariant("sudachi", LUCENE, VectorWeight(0.5)),
    "rrf": RankingVariant("mixed", LUCENE, VectorWeight(0.5, scaled=False), "rrf"),
}
"""Ways to rank for comparison with the service's settings."""


def read_retrieval_set(path: Path) -> RetrievalSet:
    """Read a retrieval set from a JSON file. Raises `BadRetrievalSet`, and `OSError` for a file that cannot be read."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise BadRetrievalSet(path.name, f"is not JSON in UTF-8: {error}") from error
    try:
        retrieval_set = RetrievalSet.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadRetrievalSet(build_field_path(first["loc"]) or path.name, describe_rule(first)) from error
    if not retrieval_set.judged_queries:
        raise BadRetrievalSet("qrels", "names no relevant document for any of the queries")
    return retrieval_set


async def evaluate(
    retrieval_set: RetrievalSet, embedder: TextEmbedder, loops: LoopsInUse, variants: Mapping[str, RankingVariant]
) -> dict[str, Quality]:
    """Return the quality of each variant. Texts are embedded once for all of them. Raises `EmbeddingFailed`."""
    judged_queries = retrieval_set.judged_queries
    documents = await embedder.embed_documents(list(retrieval_set.docs.values()))
    query_vectors = await embedder.embed_queries(list(judged_queries.values()))
    return {
        name: _evaluate_variant(retrieval_set, documents, query_vectors, variant, embedder.model, loops)
        for name, variant in variants.items()
    }


def _evaluate_variant(
    retrieval_set: RetrievalSet,
    documents: Float32s,
    query_vectors: Float32s,
    variant: RankingVariant,
    model: EmbeddingModel,
    loops: LoopsInUse,
) -> Quality:
    tokenize = get_tokenizer(variant.tokenizer)
    index = HybridIndex[str](
        documents.shape[1], tokenize, RankingRules(variant.bm25, loops, sentence_weight=variant.sentence_weight)
    )
    view = index.apply([Entry(name, text, name) for name, text in retrieval_set.docs.items()], documents)
    metrics: list[tuple[float, float, float]] = []
    for (query, text), vector in zip(retrieval_set.judged_queries.items(), query_vectors, strict=True):
        fusion = variant.weight.choose_fusion(text, model, variant.fusion)
        found = [result.item for result in view.search(tokenize(text), vector, NO_FILTER, fusion, DEPTH).results]
        grades = {name: grade for name, grade in retrieval_set.qrels[query].items() if grade > 0}
        metrics.append((compute_ndcg(found, grades), compute_recall(found[:5], grades), compute_recall(found, grades)))
    ndcg = np.array([ndcg for ndcg, _, _ in metrics])
    means = np.mean(metrics, axis=0)
    samples = np.random.default_rng(0).integers(0, len(ndcg), (RESAMPLES, len(ndcg)))
    low, high = np.quantile(ndcg[samples].mean(axis=1), (0.025, 0.975))
    return Quality(float(means[0]), float(low), float(high), float(means[1]), float(means[2]), len(metrics))


def compute_ndcg(found: Sequence[str], grades: Mapping[str, float]) -> float:
    """Return the discounted gain of the results divided by that of the best order; all `grades` are positive."""
    ideal = sorted(grades.values(), reverse=True)[:DEPTH]
    return _sum_discounted([grades.get(name, 0.0) for name in found[:DEPTH]]) / _sum_discounted(ideal)


def compute_recall(found: Sequence[str], grades: Mapping[str, float]) -> float:
    """Return the share of the relevant documents among the results."""
    return len(set(found) & set(grades)) / len(grades)


def _sum_discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(position + 2) for position, gain in enumerate(gains))
