"""Answer without a model: quote the sentences of retrieved bullets that are closest to the query.

A sentence scores by the terms it shares with the query, rare terms more (the idf of BM25, Robertson and Zaragoza, "The
Probabilistic Relevance Framework", 2009), divided by the square root of its length. The terms are those of search.
Equal scores keep its rank order.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chassis.errors import shorten
from libs.embedding.terms import tokenize_mixed
from libs.prompts.language import Language, LanguageSetting, choose_language
from services.planner.domain.generation import GeneratedAnswer, RetrievedBullet

MAX_SENTENCES = 3
MAX_SENTENCE_CHARS = 400
EXAMPLES = "examples"
"""The section of worked examples. Each is one sentence: a request without the calls that fulfilled it says nothing."""
MAX_EXAMPLE_CHARS = 2_000
MAX_QUERY_CHARS = 2_000
MAX_CONTENT_CHARS = 20_000
"""Limit for all bullets together, in rank order: some milliseconds of work, which may run on the event loop."""

_BOUNDARY = re.compile(r"(?<=[。！？])|(?<=[.!?])\s+(?![a-z])|\n+")


_TEXTS: Mapping[Language, Mapping[str, str]] = {
    "ja": {
        "mode": "オフラインモードの抽出回答です（言語モデルは使っていません）。",
        "closest": "質問に最も近い知識の文:",
        "highest_ranked": "質問と共通の語を持つ文はありません。検索で上位の知識:",
        "nothing": "関連する知識はありません。",
        "comparison": "{bullets}件のBulletの{sentences}文を質問と比較し、{shared}文に共通の語があった。",
    },
    "en": {
        "mode": "Offline and extractive: no language model was asked. ",
        "closest": "Closest to the query:",
        "highest_ranked": "No sentence shares a word with the query; ranked highest by search:",
        "nothing": "The playbook has nothing on this.",
        "comparison": "Compared {sentences} sentences of {bullets} bullets with the query; {shared} share its terms.",
    },
}


@dataclass(frozen=True, slots=True)
class _Sentence:
    bullet_id: str
    text: str
    terms: frozenset[str]


def extract_answer(
    query: str, bullets: Sequence[RetrievedBullet], language: LanguageSetting = "auto"
) -> GeneratedAnswer:
    """Return up to three sentences, best first, each cited as `[<id>]`, under a line that names the method."""
    sentences = list(_split_sentences(bullets))
    ranked = _rank(frozenset(tokenize_mixed(query[:MAX_QUERY_CHARS])), sentences)
    shared = [sentence for sentence, score in ranked if score > 0]
    chosen = (shared or [sentence for sentence, _ in ranked])[:MAX_SENTENCES]
    texts = _TEXTS[choose_language(language, query)]
    heading = texts["closest" if shared else "highest_ranked" if chosen else "nothing"]
    lines = [texts["mode"] + heading, *(f"- {sentence.text} [{sentence.bullet_id}]" for sentence in chosen)]
    comparison = texts["comparison"].format(bullets=len(bullets), sentences=len(sentences), shared=len(shared))
    return GeneratedAnswer("\n".join(lines), (comparison,))


def _split_sentences(bullets: Sequence[RetrievedBullet]) -> Iterator[_Sentence]:
    left = MAX_CONTENT_CHARS
    for bullet in bullets:
        content = bullet.content[: max(0, left)]
        is_example = bullet.section == EXAMPLES
        for part in [" ".join(content.split())] if is_example else _BOUNDARY.split(content):
            text = part.strip()
            if text:
                shown = shorten(text, MAX_EXAMPLE_CHARS if is_example else MAX_SENTENCE_CHARS)
                yield _Sentence(bullet.id, shown, frozenset(tokenize_mixed(text)))
        left -= len(bullet.content)


def _rank(query: frozenset[str], sentences: Sequence[_Sentence]) -> list[tuple[_Sentence, float]]:
    """Return all sentences with their scores, best first."""
    frequency = Counter(term for sentence in sentences for term in sentence.terms & query)
    weight = {term: math.log(1 + (len(sentences) - count + 0.5) / (count + 0.5)) for term, count in frequency.items()}
    scores = [
        (sentence, sum(weight[term] for term in sorted(sentence.terms & query)) / math.sqrt(len(sentence.terms) or 1))
        for sentence in sentences
    ]
    return sorted(scores, key=lambda scored: -scored[1])
