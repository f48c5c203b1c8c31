"""The reference engine: ranks with `faiss.IndexFlatIP` and `rank_bm25.BM25Okapi` themselves (`SEARCH_ENGINE`).

It stores the entries only and computes everything for each query. It is slow, and the oracle for the built-in engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple

import faiss
import numpy as np
from rank_bm25 import BM25Okapi

from libs.embedding.errors import EmbeddingFailed
from services.search.domain.bm25 import Variant
from services.search.domain.entry import Entry
from services.search.domain.fusion import EQUAL_WITHIN, SINGLE_PRECISION_NOISE, Floats, Fusion, add_best_sentences, fuse
from services.search.domain.items import ITEM_BYTES, Items
from services.search.domain.loops import SENTENCE_BITS
from services.search.domain.postings import TERM_BYTES
from services.search.domain.query import CandidateFilter, ItemT, Ranking, Results, TermScore
from services.search.domain.sentences import EntryTerms, choose_refined_count, tokenize_entry
from services.search.domain.snapshot import IndexState
from services.search.domain.tokenizers import Tokenizer
from services.search.domain.vectors import Float32s, scale_to_unit


class _Row(NamedTuple):
    entry: Entry[Any]
    tokenized: EntryTerms
    unit: Float32s


class ReferenceView(NamedTuple, Generic[ItemT]):
    """Implements `SearchView`."""

    revision: int
    dimension: int
    entries: Sequence[_Row]
    variant: Variant
    sentence_weight: float = 0.0

    @property
    def rows(self) -> int:
        """Return the number of entries."""
        return len(self.entries)

    def count_candidates(self, admitted: CandidateFilter) -> int:
        """Return the number of entries that pass the filter."""
        return len(self._filter(admitted))

    def search(
        self,
        terms: Sequence[str],
        query: Float32s,
        admitted: CandidateFilter,
        fusion: Fusion,
        count: int,
        explain: bool = False,
    ) -> Ranking[ItemT]:
        """See `SearchView`."""
        candidates = self._filter(admitted)
        if not candidates:
            return Ranking(alpha=fusion.alpha)
        units, corpus = np.array([row.unit for row in candidates]), [row.tokenized.terms for row in candidates]
        cosine, bm25 = _compute_cosines(units, query), self._compute_bm25(corpus, terms)
        attainable = self._compute_attainable(corpus, terms) if fusion.rise else 0.0
        order = np.arange(len(candidates))
        is_refined = self.sentence_weight > 0.0 and fusion.method == "minmax"
        ranked_count = choose_refined_count(count, len(candidates)) if is_refined else count
        ranked = fuse(cosine, bm25, order, fusion, ranked_count, attainable)
        if is_refined:
            sums = self._sum_best_sentences(corpus, terms, [candidates[n].tokenized for n in ranked.rows.tolist()])
            ranked = add_best_sentences(ranked, sums, self.sentence_weight, order, count)
        best = ranked.rows.tolist()
        matched: list[tuple[TermScore, ...]] = []
        if explain:
            vocabulary = {term for row_terms in corpus for term in row_terms}
            parts = {
                term: self._compute_bm25(corpus, [term] * terms.count(term))
                for term in dict.fromkeys(terms)
                if term in vocabulary
            }
            matched = [
                tuple(TermScore(term, float(part[n])) for term, part in parts.items() if term in corpus[n])
                for n in best
            ]
        return Ranking(
            Results([candidates[n].entry.item for n in best], ranked.scores, matched), len(candidates), ranked.alpha
        )

    def _filter(self, admitted: CandidateFilter) -> list[_Row]:
        return [row for row in self.entries if _is_admitted(row.entry, admitted)]

    def _compute_bm25(self, corpus: list[list[str]], terms: Sequence[str]) -> Floats:
        if not any(corpus):
            return np.zeros(len(corpus))  # BM25Okapi would divide by the average length (S-25)
        scores: Floats = np.asarray(self._create_model(corpus).get_scores(list(terms)), np.float64)
        return scores * self.variant.gain / (self.variant.k1 + 1.0)

    def _sum_best_sentences(
        self, corpus: list[list[str]], terms: Sequence[str], entries: Sequence[EntryTerms]
    ) -> Floats:
        """Return for each entry the highest sum of the weights of the terms in one of its sentences."""
        if not any(corpus):
            return np.zeros(len(entries))
        idf, gain = self._create_model(corpus).idf, self.variant.gain
        sums = np.zeros((len(entries), SENTENCE_BITS))
        for number, entry in enumerate(entries):
            for term, sentence in set(zip(entry.terms, (n % SENTENCE_BITS for n in entry.sentences), strict=True)):
                sums[number, sentence] += terms.count(term) * idf[term] * gain
        best: Floats = sums.max(axis=1)
        return best

    def _compute_attainable(self, corpus: list[list[str]], terms: Sequence[str]) -> float:
        """Return the score of a text of average length that has each term once, also terms that no candidate has."""
        idf = self._create_model(corpus).idf if any(corpus) else {}
        absent = self.variant.compute_idf(len(corpus), 0)
        total: float = sum(idf.get(term, absent) for term in terms)
        return total * self.variant.gain / (self.variant.k1 + 1.0)

    def _create_model(self, corpus: list[list[str]]) -> BM25Okapi:
        bm25_class = BM25Okapi if self.variant.floored else _LuceneBM25
        return bm25_class(corpus, k1=self.variant.k1, b=self.variant.b, epsilon=self.variant.epsilon)


class ReferenceIndex(Generic[ItemT]):
    """Implements `SearchIndex`."""

    def __init__(self, dimension: int, tokenize: Tokenizer, variant: Variant, sentence_weight: float = 0.0) -> None:
        self._tokenize = tokenize
        self._rows: dict[str, _Row] = {}
        self.view: ReferenceView[ItemT] = ReferenceView(0, dimension, (), variant, sentence_weight)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._rows

    def contains_item(self, entry_id: str, item: ItemT) -> bool:
        """Return whether the entry exists and has an equal item."""
        return entry_id in self._rows and self._rows[entry_id].entry.item == item

    def apply(
        self,
        entries: Sequence[Entry[ItemT]] = (),
        vectors: Floats | Float32s | None = None,
        deleted: Sequence[str] = (),
        revision: int = 0,
        order: Sequence[str] | None = None,
    ) -> ReferenceView[ItemT]:
        """See `SearchIndex`."""
        width = self.view.dimension
        matrix = np.empty((0, width)) if vectors is None or not entries else np.asarray(vectors, np.float64)
        if matrix.shape != (len(entries), width) or not np.isfinite(matrix).all():
            raise EmbeddingFailed(f"vectors of shape {matrix.shape} for an index of {(len(entries), width)}")
        units = scale_to_unit(matrix).astype(np.float32)
        rows = {entry_id: row for entry_id, row in self._rows.items() if entry_id not in deleted}
        split = self.view.sentence_weight > 0.0
        for entry, vector in zip(entries, units, strict=True):
            entry.check()
            rows[entry.id] = _Row(entry, tokenize_entry(entry.text, entry.keywords, self._tokenize, split), vector)
        if order is not None:
            rows = {entry_id: rows[entry_id] for entry_id in dict.fromkeys([*order, *rows]) if entry_id in rows}
        self._rows = rows
        self.view = self.view._replace(revision=revision, entries=tuple(rows.values()))
        return self.view

    def build_neighbours(self) -> bool:
        """Return False: every entry is always scored."""
        return False

    @property
    def allocated_bytes(self) -> int:
        """Return an estimate from the numbers of entries, vectors and terms."""
        terms = sum(len(row.tokenized.terms) for row in self._rows.values())
        return len(self._rows) * (ITEM_BYTES + 4 * self.view.dimension) + TERM_BYTES * terms

    def export_state(self) -> IndexState[ItemT]:
        """Return a state with the revision only; it is never stored (`NoSnapshots`)."""
        return IndexState(self.view.revision, (), Items(), (), (), {})


class _LuceneBM25(BM25Okapi):  # type: ignore[misc]
    """BM25Okapi with Lucene's idf, which is never negative."""

    def _calc_idf(self, nd: Mapping[str, int]) -> None:
        self.idf = {term: np.log1p((self.corpus_size - n + 0.5) / (n + 0.5)) for term, n in nd.items()}


def _compute_cosines(units: Float32s, query: Float32s) -> Floats:
    index = faiss.IndexFlatIP(units.shape[1])
    index.add(units)
    products, numbers = index.search(query[np.newaxis], len(units))
    cosine = np.empty(len(units))
    cosine[numbers[0]] = products[0]
    if EQUAL_WITHIN < np.ptp(cosine) <= SINGLE_PRECISION_NOISE:  # float32 cannot distinguish them
        return (units.astype(np.float64) * query).sum(axis=1)  # type: ignore[no-any-return]
    return cosine


def _is_admitted(entry: Entry[Any], admitted: CandidateFilter) -> bool:
    attributes = {("", entry.section), *entry.attributes}
    confidence = entry.smoothed_confidence if admitted.smoothed else entry.confidence
    return confidence >= admitted.min_confidence and all(
        any((name, value) in attributes for value in values) for name, values in admitted.list_facets()
    )
