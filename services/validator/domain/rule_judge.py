"""Scores, preferences and prospects by rules over the text, for offline use.

The rules see surface only: which words of the query return, how long sentences are, how scores went. They are
deterministic and good enough to exercise a workflow; they are no judgement of quality, and say so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TIE_POINTS = 2.0
ENOUGH_SCORE = 90.0
WORTHWHILE_GAIN = 1.0
EASY_SENTENCE_CHARS = 60

_WORD = re.compile(r"[a-z0-9]{2,}|[\u3040-\u30ff\u3400-\u9fff々ー]+")
_SENTENCE = re.compile(r"[^。.!?！？\n]+")
_SCORE = re.compile(r"(\d{1,3}\.\d\d)/100")

NOTE = {
    "ja": "規則によるオフライン評価です。モデルの判断ではありません。",
    "en": "Offline, by rules over the text; no model judged this.",
}


@dataclass(frozen=True, slots=True)
class TextScores:
    """Surface scores of a submission, 0 to 100."""

    coverage: float
    relevance: float
    clarity: float

    @property
    def overall(self) -> float:
        """Return the mean of the scores."""
        return (self.coverage + self.relevance + self.clarity) / 3

    def get_metric_score(self, name: str) -> float:
        """Return the score that stands for a built-in metric."""
        return {"Coverage": self.coverage, "Relevance": self.relevance, "ClarityCoherence": self.clarity}.get(
            name, self.overall
        )


def score_text(user_query: str, submission: str) -> TextScores:
    """Score coverage (query terms that recur), relevance (sentences with one), clarity (sentences that are short)."""
    wanted = _extract_terms(user_query)
    sentences = [sentence for sentence in _SENTENCE.findall(submission) if sentence.strip()]
    if not sentences or not wanted:
        return TextScores(0.0, 0.0, 0.0)
    coverage = len(wanted & _extract_terms(submission)) / len(wanted)
    relevance = sum(bool(wanted & _extract_terms(sentence)) for sentence in sentences) / len(sentences)
    clarity = sum(min(1.0, EASY_SENTENCE_CHARS / len(sentence.strip())) for sentence in sentences) / len(sentences)
    return TextScores(round(100 * coverage, 2), round(100 * relevance, 2), round(100 * clarity, 2))


def _extract_terms(text: str) -> set[str]:
    """Return words in Latin letters, and pairs of neighbouring characters of Japanese, which has no spaces."""
    terms: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if word[0].isascii() or len(word) == 1:
            terms.add(word)
        else:
            terms.update(word[start : start + 2] for start in range(len(word) - 1))
    return terms


def choose_preference(user_query: str, first: str, second: str) -> str:
    """Return `first`, `second` or `tie`, by overall score."""
    difference = score_text(user_query, first).overall - score_text(user_query, second).overall
    return "tie" if abs(difference) < TIE_POINTS else "first" if difference > 0 else "second"


@dataclass(frozen=True, slots=True)
class ProspectsByRules:
    """The prospects of another round, from the scores of the rounds so far."""

    should_continue: bool
    scores: tuple[float, ...]


def judge_prospects(prompt: str) -> ProspectsByRules:
    """Read the scores (`85.50/100`) of a judgment prompt; continue while they are below 90 and still rise."""
    scores = tuple(float(score) for score in _SCORE.findall(prompt))
    if not scores:
        return ProspectsByRules(True, ())
    earlier = max(scores[:-1], default=float("-inf"))
    return ProspectsByRules(max(scores) < ENOUGH_SCORE and scores[-1] >= earlier + WORTHWHILE_GAIN, scores)
