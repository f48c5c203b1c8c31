"""Scores, preferences and prospects by rules over the text: what judges where there is no model.

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
        """Their mean."""
        return (self.coverage + self.relevance + self.clarity) / 3

    def of_metric(self, name: str) -> float:
        """The score that stands for a built-in metric."""
        return {"Coverage": self.coverage, "Relevance": self.relevance, "ClarityCoherence": self.clarity}.get(
            name, self.overall
        )


def text_scores(user_query: str, submission: str) -> TextScores:
    """Coverage: query terms that return. Relevance: sentences with one. Clarity: sentences that are not too long."""
    wanted = _terms(user_query)
    sentences = [sentence for sentence in _SENTENCE.findall(submission) if sentence.strip()]
    if not sentences or not wanted:
        return TextScores(0.0, 0.0, 0.0)
    coverage = len(wanted & _terms(submission)) / len(wanted)
    relevance = sum(bool(wanted & _terms(sentence)) for sentence in sentences) / len(sentences)
    clarity = sum(min(1.0, EASY_SENTENCE_CHARS / len(sentence.strip())) for sentence in sentences) / len(sentences)
    return TextScores(round(100 * coverage, 2), round(100 * relevance, 2), round(100 * clarity, 2))


def _terms(text: str) -> set[str]:
    """Words in Latin letters, and pairs of neighbouring characters of Japanese, which has no spaces between words."""
    terms: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if word[0].isascii() or len(word) == 1:
            terms.add(word)
        else:
            terms.update(word[start : start + 2] for start in range(len(word) - 1))
    return terms


def preferred(user_query: str, first: str, second: str) -> str:
    """`first`, `second` or `tie`, by overall score."""
    difference = text_scores(user_query, first).overall - text_scores(user_query, second).overall
    return "tie" if abs(difference) < TIE_POINTS else "first" if difference > 0 else "second"


@dataclass(frozen=True, slots=True)
class Prospects:
    """Whether the scores of the rounds so far speak for another one."""

    should_continue: bool
    scores: tuple[float, ...]


def prospects(prompt: str) -> Prospects:
    """Reads the scores (`85.50/100`) of a judgment prompt: go on while they are below 90 and still rise."""
    scores = tuple(float(score) for score in _SCORE.findall(prompt))
    if not scores:
        return Prospects(True, ())
    earlier = max(scores[:-1], default=float("-inf"))
    return Prospects(max(scores) < ENOUGH_SCORE and scores[-1] >= earlier + WORTHWHILE_GAIN, scores)
