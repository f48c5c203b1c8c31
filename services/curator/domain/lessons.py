"""What the offline curator asks of a lesson: is it the better wording, can another task use it, what backs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from services.curator.domain.curation import Insight
from services.curator.domain.similarity import Similarity, find_names, find_subject
from services.curator.domain.word_similarity import word_weights

# A text replaces one it does not contain when it says at least this share more.
SAYS_MORE = 1.25
_OPENING_CHARS = 60


def contains(text: str, other: str) -> bool:
    """Whether `text` says all that `other` does, every word and every name, and something more."""
    return word_weights(text).keys() > word_weights(other).keys() and find_names(text) >= find_names(other)


def says_more(text: str, other: str, similarity: Similarity) -> bool:
    """Whether `text` is clearly the richer wording of the same lesson, though not all words of `other` are in it."""
    richer = len(word_weights(text)) >= SAYS_MORE * max(1, len(word_weights(other)))
    return (
        richer
        and find_names(text) >= find_names(other)
        and similarity.cosine(text, other) >= similarity.thresholds.same_meaning
    )


def is_recipe(text: str, query: str) -> bool:
    """Whether a lesson tells the calls of one task: it quotes what the run was asked and names what to call for it."""
    return quotes(text, query) and bool(find_names(text) - find_names(query))


def is_attested(text: str, query: str) -> bool:
    """Whether a tool's own words back the lesson: it names what was called and quotes what came back.

    Such a lesson stands however the run ended. Any other rests on how it ended, and on what says so.
    """
    about = find_subject(text)
    return about is not None and bool(about.named) and not quotes(text, query)


def quotes(text: str, query: str) -> bool:
    """Whether a lesson quotes what its run was asked, so that it holds for one task."""
    opening = " ".join(query.split())[:_OPENING_CHARS]
    said = " ".join(text.split())
    return bool(opening) and any(f"{mark}{opening}" in said for mark in ('"', "「"))


def distinct(insights: Iterable[Insight], similarity: Similarity) -> list[Insight]:
    """Each lesson once, in its better wording and resting on the steps of all, in the order in which they came."""
    kept: list[Insight] = []
    for insight in insights:
        if not insight.key_insight.strip():
            continue
        place = next(
            (at for at, one in enumerate(kept) if similarity.is_same(one.key_insight, insight.key_insight)), None
        )
        if place is None:
            kept.append(insight)
        else:
            kept[place] = _joined(kept[place], insight, similarity)
    return kept


def _joined(one: Insight, other: Insight, similarity: Similarity) -> Insight:
    text, known = other.key_insight, one.key_insight
    better = other if contains(text, known) or says_more(text, known, similarity) else one
    return replace(better, steps=tuple(sorted({*one.steps, *other.steps})))
