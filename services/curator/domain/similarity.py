"""How alike two texts are, without a model: the cosine of their counted words and character pairs.

Words speak for languages that part them; pairs of neighbouring characters speak for Japanese, which does not. The
weight of a feature is 1 + ln(count) (sublinear term frequency; Salton & Buckley 1988).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from services.curator.domain.log import Stored

# From this cosine on two texts are about the same thing.
SAME_SUBJECT = 0.45

_NEGATION = re.compile(
    r"\b(?:never|not|don't|doesn't|avoid|without|cannot|can't|no longer)\b|ない|ません|避け|禁止|不要", re.IGNORECASE
)
_NAMED = re.compile(r"`([^`]+)`")
_QUOTED = re.compile(r"\"([^\"]+)\"|「([^」]+)」")
# ASCII words; every other letter counts in pairs with its neighbour.
_WORD = re.compile(r"[a-z0-9_]+|[^\W\d_a-z]+")
_STOP_WORDS = frozenset(
    [
        *("a", "an", "and", "are", "as", "at", "be", "been", "before", "but", "by", "do", "does", "for", "from", "had"),
        *("has", "have", "if", "in", "into", "is", "it", "its", "of", "on", "or", "that", "the", "then", "there"),
        *("these", "this", "to", "was", "were", "when", "which", "will", "with", "you", "your"),
    ]
)


@lru_cache(maxsize=65_536)
def weights(text: str) -> Mapping[str, float]:
    """The weighted features of `text`, scaled to length 1; empty without a feature."""
    counts = Counter(_features(text.lower()))
    raw = {feature: 1.0 + math.log(count) for feature, count in counts.items()}
    length = math.sqrt(sum(weight * weight for weight in raw.values()))
    return {feature: weight / length for feature, weight in raw.items()}


def _features(text: str) -> Iterable[str]:
    words = _WORD.findall(text)
    content = [word for word in words if word not in _STOP_WORDS] or words
    for word in content:
        if word.isascii():
            yield _stem(word)
        else:
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))


def _stem(word: str) -> str:
    """The word without the endings that change with number and tense; enough to compare, not to read."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def similarity(one: str, other: str) -> float:
    """Cosine in 0..1: 1 for the same features, 0 for none in common."""
    small, large = sorted((weights(one), weights(other)), key=len)
    return min(1.0, sum(weight * large.get(feature, 0.0) for feature, weight in small.items()))


@dataclass(frozen=True, slots=True)
class Subject:
    """What a lesson is about by its form: the first thing it names in backticks, and the first thing it quotes."""

    named: str
    quoted: str


@lru_cache(maxsize=65_536)
def subject(text: str) -> Subject | None:
    """The subject of a lesson, such as a tool and the message it fails with; None when it quotes nothing."""
    quoted = _QUOTED.search(text)
    if quoted is None:
        return None
    named = _NAMED.search(text)
    return Subject(" ".join(named[1].split()) if named else "", " ".join((quoted[1] or quoted[2]).split()))


@lru_cache(maxsize=65_536)
def names(text: str) -> frozenset[str]:
    """All that a text names in backticks."""
    return frozenset(_NAMED.findall(text))


def likeness(one: str, other: str) -> float:
    """How far two texts are the same lesson, 0..1: their similarity, unless the form of both says more.

    Lessons that quote different messages are different, however alike the rest; those that name the same thing and
    quote the same message are the same, whatever else they advise. A "do" and a "do not" are never the same lesson.
    """
    first, second = subject(one), subject(other)
    if first is not None and second is not None and first != second:
        return 0.0
    score = similarity(one, other)
    if _forbids(one) != _forbids(other):
        return min(score, SAME_SUBJECT)
    return 1.0 if first is not None and first == second and first.named and score >= SAME_SUBJECT else score


def nearest(content: str, bullets: Iterable[Stored]) -> tuple[Stored | None, float]:
    """The bullet most like `content`, the first one of equals, and its likeness; (None, 0.0) without any."""
    best: Stored | None = None
    best_score = 0.0
    for stored in bullets:
        score = likeness(content, stored.bullet.content)
        if score > best_score:
            best, best_score = stored, score
    return best, best_score


def contradict(one: str, other: str) -> bool:
    """Whether two texts speak of the same thing, one with and one without a negation. A hint, not a proof."""
    return similarity(one, other) >= SAME_SUBJECT and _forbids(one) != _forbids(other)


@lru_cache(maxsize=65_536)
def _forbids(text: str) -> bool:
    """Whether the text itself negates; what it quotes does not count."""
    return _NEGATION.search(_QUOTED.sub("", text)) is not None
