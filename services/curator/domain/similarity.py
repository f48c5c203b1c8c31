"""Decide whether two texts contain the same lesson, by a cosine, by their subjects and by negations."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from libs.embedding.model import SimilarityThresholds
from services.curator.domain.log import StoredBullet

_NEGATION = re.compile(
    r"\b(?:never|not|don't|doesn't|avoid|without|cannot|can't|no longer)\b|ない|ません|避け|禁止|不要", re.IGNORECASE
)
_NAMED = re.compile(r"`([^`]+)`")
_QUOTED = re.compile(r"\"([^\"]+)\"|「([^」]+)」")


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a lesson: the first name in backticks, and the first quotation."""

    name: str
    quote: str


@lru_cache(maxsize=65_536)
def find_subject(text: str) -> Subject | None:
    """Return the subject of a lesson, such as a tool and its error message; None without a quotation."""
    quote = _QUOTED.search(text)
    if quote is None:
        return None
    name = _NAMED.search(text)
    return Subject(" ".join(name[1].split()) if name else "", " ".join((quote[1] or quote[2]).split()))


@lru_cache(maxsize=65_536)
def find_names(text: str) -> frozenset[str]:
    """Return all names in backticks."""
    return frozenset(_NAMED.findall(text))


@lru_cache(maxsize=65_536)
def negates(text: str) -> bool:
    """Return True if the text contains a negation outside its quotations."""
    return _NEGATION.search(_QUOTED.sub("", text)) is not None


class Similarity(ABC):
    """The similarity of texts by a cosine, by subjects and by negations. `name` is the name in reasons."""

    name: str
    thresholds: SimilarityThresholds
    inline_comparisons = 100
    """Comparisons of lessons with bullets that take less time than a thread hand-over."""

    @abstractmethod
    def compute_cosine(self, text: str, other: str) -> float:
        """Return the cosine of two texts; 0 for a text that cannot be compared."""

    def score(self, text: str, other: str) -> float:
        """Return a score of two texts for the same lesson, 0..1: their cosine, unless their subjects decide.

        Lessons that quote different messages are different, however similar the rest; those that name the same tool
        and quote the same message are the same, even if their advice differs. A "do" and a "do not" are never the same.
        """
        first, second = find_subject(text), find_subject(other)
        if first is not None and second is not None and first != second:
            return 0.0
        score = min(1.0, max(0.0, self.compute_cosine(text, other)))
        if negates(text) != negates(other):
            return min(score, self.thresholds.same_subject)
        is_same_subject = first is not None and first == second and first.name
        return 1.0 if is_same_subject and score >= self.thresholds.same_subject else score

    def is_same(self, text: str, other: str) -> bool:
        """Return True if two texts contain the same lesson."""
        return text == other or self.score(text, other) >= self.thresholds.same_meaning

    def contradicts(self, text: str, other: str) -> bool:
        """Return True if two texts differ by a negation only. A hint, not a proof."""
        if negates(text) == negates(other):
            return False
        first = find_subject(text)
        is_same_subject = first is not None and first == find_subject(other)
        threshold = self.thresholds.same_subject if is_same_subject else self.thresholds.same_meaning
        return self.compute_cosine(text, other) >= threshold

    def find_nearest(self, content: str, bullets: Sequence[StoredBullet]) -> tuple[StoredBullet | None, float]:
        """Return the first bullet with the highest score, and the score; (None, 0.0) if every score is 0."""
        best: StoredBullet | None = None
        best_score = 0.0
        for stored in bullets:
            score = self.score(content, stored.bullet.content)
            if score > best_score:
                best, best_score = stored, score
        return best, best_score

    @abstractmethod
    def rank(self, content: str, bullets: Sequence[StoredBullet], limit: int) -> list[StoredBullet]:
        """Return at most `limit` bullets, by the cosine of their text and `content`, best first."""

    def describe(self, text: str, other: str) -> str:
        """Return the similarity of two texts for a reason: the cosine, its name, and equal subjects."""
        score = f"{self.name} {self.compute_cosine(text, other):.2f}"
        first = find_subject(text)
        return f"the same tool and message, {score}" if first is not None and first == find_subject(other) else score


def select_relevant(
    similarity: Similarity, lessons: Iterable[str], bullets: Sequence[StoredBullet], limit: int
) -> list[StoredBullet]:
    """Return the `limit` bullets that are most relevant for the lessons in turn, in playbook order."""
    # The first bullets follow the ranked ones, so that there are always `limit` bullets.
    rankings = [[*similarity.rank(lesson, bullets, limit), *bullets[:limit]] for lesson in lessons]
    selected: dict[int, StoredBullet] = {}
    for candidates in zip_longest(*rankings):
        for stored in candidates:
            if stored is not None and len(selected) < limit:
                selected.setdefault(stored.slot, stored)
    return [selected[slot] for slot in sorted(selected)]
