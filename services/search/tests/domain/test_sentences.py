"""Entries in sentences, and the bonus of the best one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.embedding.terms import tokenize_mixed
from services.search.adapters.reference import ReferenceIndex
from services.search.domain.bm25 import LUCENE
from services.search.domain.entry import Entry
from services.search.domain.fusion import Fusion
from services.search.domain.index import HybridIndex
from services.search.domain.query import CandidateFilter, Results
from services.search.domain.sentences import tokenize_entry
from services.search.domain.tokenizers import TOKENIZERS, tokenize_whitespace
from services.search.domain.view import LoopsInUse, RankingRules
from services.search.tests.engines import LOOPS

ANYTHING = CandidateFilter()


def test_keywords_follow_the_text_as_one_more_sentence() -> None:  # S-18
    entry = tokenize_entry("a b. c\nd", ["e f", ""], tokenize_whitespace)
    assert entry.terms == ["a", "b.", "c", "d", "e", "f"]
    assert entry.sentences == [0, 0, 1, 2, 3, 3]


def test_japanese_sentences_need_no_space() -> None:
    assert tokenize_entry("再起動する。確認する", [], TOKENIZERS["ja_bigram"]).sentences == [0] * 4 + [0] + [1] * 3


@given(st.text("ab 。.!?\n再起動"))
def test_sentences_have_the_terms_of_the_text(text: str) -> None:
    assert sorted(tokenize_entry(text, [], tokenize_mixed).terms) == sorted(tokenize_mixed(text))


TEXTS = {
    "scattered": "Restart the server. Rotate the log daily. Save the backup first.",
    "together": "Save the backup first. Restart the server, rotate the log. Daily.",
    "other": "Water the plants.",
}


def _index(engine: str, weight: float) -> HybridIndex[str] | ReferenceIndex[str]:
    if engine == "reference":
        return ReferenceIndex(1, tokenize_mixed, LUCENE, weight)
    return HybridIndex(1, tokenize_mixed, RankingRules(LUCENE, LoopsInUse(LOOPS[engine]), sentence_weight=weight))


def _search(engine: str, weight: float, query: str, alpha: float = 0.0, count: int = 8) -> Results[str]:
    index = _index(engine, weight)
    entries = [Entry(name, text, name) for name, text in TEXTS.items()]
    entries += [Entry(f"filler {n}", f"Filler {n}.", f"filler {n}") for n in range(40)]
    view = index.apply(entries, np.ones((len(entries), 1)))
    return view.search(tokenize_mixed(query), np.ones(1, np.float32), ANYTHING, Fusion(alpha), count).results


def test_the_specified_tokenizers_see_the_whole_text() -> None:  # S-18
    assert tokenize_entry("a。b", ["c"], tokenize_whitespace, split=False) == (["a。b", "c"], [0, 1])


@pytest.mark.parametrize("engine", [*LOOPS, "reference"])
def test_words_that_stand_together_come_first(engine: str) -> None:
    by_entry, by_sentence = (_search(engine, weight, "restart server rotate log") for weight in (0.0, 0.5))
    assert by_entry[0].raw_bm25 == pytest.approx(by_entry[1].raw_bm25)
    assert [result.item for result in by_sentence][:2] == ["together", "scattered"]
    assert by_sentence[0].bm25_score == pytest.approx(1.0)
    assert by_sentence[1].bm25_score < by_entry[1].bm25_score


@pytest.mark.parametrize("engine", LOOPS)
@pytest.mark.parametrize(("alpha", "count"), [(0.0, 1), (0.5, 3), (1.0, 43)])
def test_engines_agree_about_sentences(engine: str, alpha: float, count: int) -> None:
    found, expected = (_search(name, 0.5, "restart the log first", alpha, count) for name in (engine, "reference"))
    assert [result.item for result in found] == [result.item for result in expected]
    assert found.scores == pytest.approx(expected.scores)


@pytest.mark.parametrize("engine", [*LOOPS, "reference"])
def test_a_query_without_known_words_ranks_as_before(engine: str) -> None:
    assert _search(engine, 0.5, "quarks").scores == pytest.approx(_search(engine, 0.0, "quarks").scores)
