"""When two texts teach the same lesson: a cosine says how similar they are, their form says what that is worth."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from libs.embedding.model import SimilarityThresholds
from services.curator.domain.log import Stored

_NEGATION = re.compile(
    r"\b(?:never|not|don't|doesn't|avoid|without|cannot|can't|no longer)\b|ない|ません|避け|禁止|不要", re.IGNORECASE
)
_NAMED = re.compile(r"`([^`]+)`")
_QUOTED = re.compile(r"\"([^\"]+)\"|「([^」]+)」")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a lesson is about by its form: the first thing it names in backticks, and the first thing it quotes."""

    named: str
    quoted: str


@lru_cache(maxsize=65_536)
def find_subject(text: str) -> Subject | None:
    """Return the subject of a lesson, such as a tool and the message it fails with; None when it quotes nothing."""
    quoted = _QUOTED.search(text)
    if quoted is None:
        return None
    named = _NAMED.search(text)
    return Subject(" ".join(named[1].split()) if named else "", " ".join((quoted[1] or quoted[2]).split()))


@lru_cache(maxsize=65_536)
def find_names(text: str) -> frozenset[str]:
    """Return all that a text names in backticks."""
    return frozenset(_NAMED.findall(text))


@lru_cache(maxsize=65_536)
def negates(text: str) -> bool:
    """Return True if the text itself negates; what it quotes does not count."""
    return _NEGATION.search(_QUOTED.sub("", text)) is not None


class Similarity(ABC):
    """The similarity of texts by a cosine, named as reasons name it, and by their form."""

    name: str
    thresholds: SimilarityThresholds

    @abstractmethod
    def cosine(self, one: str, other: str) -> float:
        """Return the cosine of two texts; 0 for a text that cannot be compared."""

    def score(self, one: str, other: str) -> float:
        """Return how far two texts are the same lesson, 0..1: their cosine, unless the form of both says more.

        Lessons that quote different messages are different, however similar the rest; those that name the same thing
        and quote the same message are the same, whatever else they advise. A "do" and a "do not" are never the same.
        """
        first, second = find_subject(one), find_subject(other)
        if first is not None and second is not None and first != second:
            return 0.0
        score = min(1.0, max(0.0, self.cosine(one, other)))
        if negates(one) != negates(other):
            return min(score, self.thresholds.same_subject)
        same_form = first is not None and first == second and first.named
        return 1.0 if same_form and score >= self.thresholds.same_subject else score

    def is_same(self, one: str, other: str) -> bool:
        """Return True if two texts teach the same."""
        return one == other or self.score(one, other) >= self.thresholds.same_meaning

    def contradicts(self, one: str, other: str) -> bool:
        """Return True if two texts are the same lesson but for a negation that one has. A hint, not a proof."""
        if negates(one) == negates(other):
            return False
        first = find_subject(one)
        same_form = first is not None and first == find_subject(other)
        needed = self.thresholds.same_subject if same_form else self.thresholds.same_meaning
        return self.cosine(one, other) >= needed

    def nearest(self, content: str, bullets: Sequence[Stored]) -> tuple[Stored | None, float]:
        """Return the bullet most similar to `content`, the first of equals, and its score; (None, 0.0) without any."""
        best: Stored | None = None
        best_score = 0.0
        for stored in bullets:
            score = self.score(content, stored.bullet.content)
            if score > best_score:
                best, best_score = stored, score
        return best, best_score

    @abstractmethod
    def rank(self, content: str, bullets: Sequence[Stored], limit: int) -> list[Stored]:
        """Return at most `limit` bullets, by the cosine of their text and `content`, best first."""

    def describe(self, one: str, other: str) -> str:
        """Return the similarity of two texts as a reason says it: the cosine, its name, and what their form adds."""
        score = f"{self.name} {self.cosine(one, other):.2f}"
        first = find_subject(one)
        return f"the same tool and message, {score}" if first is not None and first == find_subject(other) else score


def select_relevant(
    similarity: Similarity, lessons: Iterable[str], bullets: Sequence[Stored], limit: int
) -> list[Stored]:
    """Return the `limit` bullets that matter most for the lessons, each lesson in turn; in playbook order."""
    # After the ranked bullets the first ones, so that there are always as many as are asked for.
    rankings = [[*similarity.rank(lesson, bullets, limit), *bullets[:limit]] for lesson in lessons]
    selected: dict[int, Stored] = {}
    for places in zip_longest(*rankings):
        for stored in places:
            if stored is not None and len(selected) < limit:
                selected.setdefault(stored.slot, stored)
    return [selected[slot] for slot in sorted(selected)]
