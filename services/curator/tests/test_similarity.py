"""By what lessons are compared: words, or vectors of the search service (here one that answers from memory)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from services.curator.domain.curation import Evaluation, Insight, Reflection
from services.curator.domain.likeness import MEASURED, WORDS, thresholds_of
from services.curator.domain.log import Stamp, Stored
from services.curator.domain.playbook import Bullet
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.rule_curator import RuleCurator
from services.curator.usecases.similarity import (
    COMPARED_WITH_ALL,
    NEAREST,
    SearchSimilarity,
    WordSimilarity,
)
from services.curator.usecases.vectors import REMEMBERED, Embedded, Vectors

CAR, AUTO, BOAT = "Park the car", "Leave the automobile", "Moor the boat"
DIRECTIONS = {CAR: (1.0, 0.0), AUTO: (0.95, 0.31225), BOAT: (0.0, 1.0)}


class Remembering:
    """A search service whose vectors and rankings are known; it notes what it is asked."""

    def __init__(self, ranked: Mapping[str, Sequence[str]] | None = None) -> None:
        self.model = "hashing-test"
        self.ranked = ranked or {}
        self.embedded: list[list[str]] = []
        self.asked: list[tuple[str, int, int]] = []
        self.directions = DIRECTIONS

    async def nearest(self, dataset: str, texts: Sequence[str], limit: int, revision: int) -> list[list[str]]:
        self.asked.append((dataset, limit, revision))
        return [list(self.ranked.get(text, ()))[:limit] for text in texts]

    best = nearest

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.embedded.append(list(texts))
        return Embedded(self.model, [np.array(self.directions.get(text, (0.0, 0.0)), np.float32) for text in texts])


def bullet(bullet_id: str, content: str) -> Bullet:
    return Bullet(id=bullet_id, section="s", content=content, searchable_text=content)


def playbook(*contents: str, retired: str = "") -> Snapshot:
    """A playbook at revision 7; `retired` is the text of its last bullet, which is retired."""
    bullets = [
        Bullet(id=f"b-{at}", section="s", content=text, searchable_text=text) for at, text in enumerate(contents)
    ]
    if retired:
        bullets.append(Bullet(id="gone", section="s", content=retired, searchable_text=retired, retired="out-voted"))
    stamp = Stamp(7, datetime(2026, 1, 1, tzinfo=UTC))
    return Snapshot("d", 7, [Stored(at, one, stamp, stamp, 7) for at, one in enumerate(bullets)])


def large(*contents: str, retired: str = "") -> Snapshot:
    return playbook(*contents, *(f"filler {number}" for number in range(COMPARED_WITH_ALL)), retired=retired)


def reflection(*texts: str) -> Reflection:
    return Reflection(tuple(Insight("r", "e", "c", "a", text, section="s") for text in texts), trajectory_id="run")


def by_vectors(search: Remembering, same_lesson: float | None = None) -> SearchSimilarity:
    return SearchSimilarity(search, Vectors(search), same_lesson)


async def test_what_vectors_say_is_the_same_is_confirmed_and_the_reason_says_how() -> None:
    curator = RuleCurator(by_vectors(Remembering()))
    confirmed, added = (await curator.propose(reflection(AUTO, BOAT), playbook(CAR), [])).proposals
    assert (confirmed.confirms, confirmed.delta.reasoning) == (
        "b-0",
        "confirms b-0; the same lesson (cosine of hashing-test 0.95)",
    )
    assert (added.confirms, added.delta.reasoning) == (
        "",
        "no bullet says this; likeness 0.00 with all (cosine of hashing-test)",
    )
    by_words = (await RuleCurator(WordSimilarity()).propose(reflection("Park a van"), playbook(CAR), [])).proposals
    assert by_words[0].delta.reasoning == "no bullet says this; the nearest is b-0 (cosine of words 0.50)"


async def test_a_small_playbook_is_compared_with_all_of_it_and_nobody_is_asked_to_search() -> None:
    search = Remembering()
    book = playbook(CAR, BOAT, retired=AUTO)
    assert await by_vectors(search).candidates([CAR], book) == book.everything()
    assert search.asked == []


async def test_of_a_large_playbook_the_nearest_the_retired_and_those_on_the_subject_are_compared() -> None:
    message = 'Before `git push`: pull, or `git push` fails with "rejected".'
    again = 'Before `git push`: rebase, or `git push` fails with "rejected".'
    search = Remembering({CAR: ["b-1"]})
    book = large(message, AUTO, retired="park a car")
    found = await by_vectors(search).candidates([CAR, again], book)
    assert [stored.bullet.content for stored in found] == [message, AUTO, "park a car"]
    assert search.asked == [("d", NEAREST, 7)]


async def test_in_a_large_playbook_too_a_bullet_that_a_lesson_contradicts_and_votes_are_against_is_removed() -> None:
    wrong, right = "Park the car on the grass", "Never park the car on the grass"
    book = large(wrong)
    first, *others = book.everything()
    out_voted = Snapshot("d", 7, [replace(first, bullet=first.bullet.having(harmful=1)), *others])
    search = Remembering()
    search.directions = {wrong: (1.0, 0.0), right: (0.9, 0.4359)}
    against = replace(reflection(right), evaluations=(Evaluation("b-0", "harmful"),))
    removed, added = (await RuleCurator(by_vectors(search)).propose(against, out_voted, [])).proposals
    assert (removed.delta.type, removed.delta.bullet_id, added.delta.type) == ("DELETE", "b-0", "ADD")
    assert removed.delta.reasoning == (
        "contradicted by this run (cosine of hashing-test 0.90) and out-voted (2 harmful, 0 helpful)"
    )


async def test_vectors_are_asked_for_once() -> None:
    search = Remembering()
    similarity = by_vectors(search)
    first, again = await similarity.measure([CAR, BOAT, CAR]), await similarity.measure([BOAT, CAR])
    assert search.embedded == [[CAR, BOAT]]
    assert first.cosine(CAR, BOAT) == again.cosine(CAR, BOAT) == 0.0
    await similarity.measure(f"text {number}" for number in range(REMEMBERED))
    await similarity.measure([CAR])
    assert search.embedded[-1] == [CAR]


async def test_vectors_of_two_embedders_are_never_compared() -> None:
    search = Remembering()
    similarity = by_vectors(search)
    await similarity.measure([CAR])
    search.model = "all-MiniLM-L6-v2-test"
    measure = await similarity.measure([CAR, AUTO])
    assert search.embedded == [[CAR], [AUTO], [CAR, AUTO]]
    assert (measure.name, measure.thresholds) == ("cosine of all-MiniLM-L6-v2-test", MEASURED["all-MiniLM-L6-v2"])


async def test_thresholds_suit_the_embedder_or_the_setting() -> None:
    strictest = thresholds_of("someone-elses-embedder")
    assert strictest.same_lesson == max(each.same_lesson for each in MEASURED.values())
    measure = await by_vectors(Remembering(), same_lesson=0.96).measure([CAR, AUTO])
    assert not measure.same(CAR, AUTO)


@pytest.mark.parametrize("similarity", [WordSimilarity(), by_vectors(Remembering())])
async def test_of_few_bullets_all_in_use_are_relevant(similarity: WordSimilarity | SearchSimilarity) -> None:
    found = await similarity.relevant([CAR], playbook(CAR, BOAT, retired=AUTO), 5)
    assert [stored.bullet.content for stored in found] == [CAR, BOAT]


async def test_of_many_bullets_those_are_relevant_that_search_ranks_highest_each_lesson_in_turn() -> None:
    search = Remembering({CAR: ["b-3", "b-4", "b-9", "unknown"], BOAT: ["b-1", "b-3", "b-2"]})
    found = await by_vectors(search).relevant([CAR, BOAT], large(), 4)
    assert [stored.bullet.id for stored in found] == ["b-1", "b-3", "b-4", "b-9"]


async def test_of_many_bullets_words_choose_as_many_as_are_asked_for() -> None:
    found = await WordSimilarity().relevant([CAR], large(BOAT, "park"), 3)
    assert [stored.bullet.content for stored in found] == [BOAT, "park", "filler 0"]


@pytest.mark.parametrize(("one", "other"), [(CAR, CAR), ("", ""), (CAR, "")])
def test_the_same_text_is_the_same_lesson_by_any_measure(one: str, other: str) -> None:
    assert WORDS.same(one, other) is (one == other)
