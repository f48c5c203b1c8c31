"""Judge lessons by rules: the better wording, use for other tasks, evidence from tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from services.curator.domain.curation import Lesson
from services.curator.domain.similarity import Similarity, find_names, find_subject
from services.curator.domain.word_similarity import weigh_words

# A text replaces one that it does not contain if it has this many times as many words.
SAYS_MORE = 1.25
_OPENING_CHARS = 60


def contains(text: str, other: str) -> bool:
    """Return True if `text` has every word and every name of `other`, and more."""
    return weigh_words(text).keys() > weigh_words(other).keys() and find_names(text) >= find_names(other)


def says_more(text: str, other: str, similarity: Similarity) -> bool:
    """Return True if `text` states the same lesson in clearly more words, though not in all words of `other`."""
    richer = len(weigh_words(text)) >= SAYS_MORE * max(1, len(weigh_words(other)))
    return (
        richer
        and find_names(text) >= find_names(other)
        and similarity.compute_cosine(text, other) >= similarity.thresholds.same_meaning
    )


def is_attested(text: str, query: str) -> bool:
    """Return True if a lesson names a called tool and quotes the tool's response."""
    about = find_subject(text)
    return about is not None and bool(about.name) and not quotes(text, query)


def quotes(text: str, query: str) -> bool:
    """Return True if a lesson quotes the task of its trajectory, so that it holds for this task only."""
    opening = " ".join(query.split())[:_OPENING_CHARS]
    content = " ".join(text.split())
    return bool(opening) and any(f"{mark}{opening}" in content for mark in ('"', "「"))


def merge_lessons(insights: Iterable[Lesson], similarity: Similarity) -> list[Lesson]:
    """Return each lesson once, in its better wording and with the steps of all wordings, in order of appearance."""
    lessons: list[Lesson] = []
    for insight in insights:
        if not insight.key_insight.strip():
            continue
        for index, lesson in enumerate(lessons):
            if similarity.is_same(lesson.key_insight, insight.key_insight):
                lessons[index] = _merge_wordings(lesson, insight, similarity)
                break
        else:
            lessons.append(insight)
    return lessons


def _merge_wordings(lesson: Lesson, other: Lesson, similarity: Similarity) -> Lesson:
    text, earlier_text = other.key_insight, lesson.key_insight
    is_better = contains(text, earlier_text) or says_more(text, earlier_text, similarity)
    return replace(
        other if is_better else lesson,
        steps=tuple(sorted({*lesson.steps, *other.steps})),
        target=lesson.target or other.target,
    )
