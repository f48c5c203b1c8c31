"""Comparison of lessons: by words, or by vectors of an embedding model (here one with known vectors)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.embedding.embedder import TextEmbedder
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.hashing import Hashing
from libs.embedding.minilm import THRESHOLDS as MINILM
from libs.embedding.model import Float32s, Languages
from libs.embedding.remote import STRICTEST
from services.curator.domain.curation import Evaluation, Lesson, Reflection
from services.curator.domain.embedding_similarity import EmbeddingSimilarity, TextMatrix
from services.curator.domain.errors import SimilarityUnavailable
from services.curator.domain.log import SlotChange, Stamp, StoredBullet
from services.curator.domain.playbook import Bullet
from services.curator.domain.similarity import Similarity, select_relevant
from services.curator.domain.snapshot import Snapshot
from services.curator.domain.word_similarity import WORDS
from services.curator.usecases.rule_curator import RuleCurator
from services.curator.usecases.similarity import SPARE_ROWS, EmbeddingSource, WordSource

CAR, AUTO, BOAT = "Park the car", "Leave the automobile", "Moor the boat"
VECTORS = {CAR: (1.0, 0.0), AUTO: (0.95, 0.31225), BOAT: (0.0, 1.0)}


class KnownVectorsModel:
    """A model with known vectors; it records the texts, and fails if `error` is set."""

    model_id, trust, languages, thresholds = "hashing-test", 1.0, Languages.SEVERAL, Hashing.thresholds

    def __init__(self, vectors: Mapping[str, tuple[float, float]] = VECTORS) -> None:
        self.vectors = vectors
        self.embedded: list[list[str]] = []
        self.error: Exception | None = None

    async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        self.embedded.append(list(texts))
        if self.error:
            raise self.error
        return np.array([self.vectors.get(text, (0.0, 0.0)) for text in texts], np.float32)


def playbook(*contents: str, retired: str = "") -> Snapshot:
    """A playbook at revision 7; `retired` is the text of its last bullet, which is retired."""
    bullets = [
        Bullet(id=f"b-{at}", section="s", content=text, searchable_text=text) for at, text in enumerate(contents)
    ]
    if retired:
        bullets.append(Bullet(id="gone", section="s", content=retired, searchable_text=retired, retired="out-voted"))
    stamp = Stamp(7, datetime(2026, 1, 1, tzinfo=UTC))
    return Snapshot("d", 7, [StoredBullet(at, bullet, stamp, stamp, 7) for at, bullet in enumerate(bullets)])


def large(*contents: str, retired: str = "") -> Snapshot:
    return playbook(*contents, *(f"filler {number}" for number in range(300)), retired=retired)


def reflection(*texts: str) -> Reflection:
    return Reflection(tuple(Lesson("r", "e", "c", "a", text, section="s") for text in texts), trajectory_id="run")


def by_vectors(model: KnownVectorsModel | None = None, same_meaning: float | None = None) -> EmbeddingSource:
    return EmbeddingSource(TextEmbedder(model or KnownVectorsModel()), same_meaning)


async def test_equal_lessons_by_vectors_are_confirmed_with_the_reason() -> None:
    curator = RuleCurator(by_vectors())
    confirmed, added = (await curator.propose(reflection(AUTO, BOAT), playbook(CAR), [])).proposals
    assert (confirmed.confirmed_id, confirmed.delta.reasoning) == (
        "b-0",
        "confirms b-0; the same lesson (cosine of hashing-test 0.95)",
    )
    assert (added.confirmed_id, added.delta.reasoning) == (
        "",
        "no bullet says this; similarity 0.00 with all (cosine of hashing-test)",
    )
    by_words = (await RuleCurator(WordSource()).propose(reflection("Park a van"), playbook(CAR), [])).proposals
    assert by_words[0].delta.reasoning == "no bullet says this; the nearest is b-0 (cosine of words 0.50)"


async def test_lessons_are_compared_with_all_bullets_of_a_large_playbook_retired_ones_included() -> None:
    message = 'Before `git push`: pull, or `git push` fails with "rejected".'
    again = 'Before `git push`: rebase, or `git push` fails with "rejected".'
    model = KnownVectorsModel({**VECTORS, message: (0.6, 0.8), again: (0.6, 0.8)})
    book = large(message, BOAT, retired=AUTO)
    similarity = await by_vectors(model).compare([CAR, again], book)
    found = [similarity.find_nearest(lesson, book.list_bullets()) for lesson in (CAR, again)]
    assert [(stored.bullet.content if stored else "", round(score, 2)) for stored, score in found] == [
        (AUTO, 0.95),
        (message, 1.0),
    ]


async def test_a_bullet_that_a_lesson_contradicts_and_votes_are_against_is_removed() -> None:
    wrong, right = "Park the car on the grass", "Never park the car on the grass"
    book = large(wrong)
    first, *others = book.list_bullets()
    out_voted = Snapshot("d", 7, [replace(first, bullet=first.bullet.replace_fields(harmful=1)), *others])
    model = KnownVectorsModel({wrong: (1.0, 0.0), right: (0.9, 0.4359)})
    against = replace(reflection(right), evaluations=(Evaluation("b-0", "harmful"),))
    removed, added = (await RuleCurator(by_vectors(model)).propose(against, out_voted, [])).proposals
    assert (removed.delta.type, removed.delta.bullet_id, added.delta.type) == ("DELETE", "b-0", "ADD")
    assert removed.delta.reasoning == (
        "contradicted by this trajectory (cosine of hashing-test 0.90) and outvoted (2 harmful, 0 helpful)"
    )


async def test_a_text_is_embedded_once_and_a_matrix_follows_its_playbook_by_difference() -> None:
    model = KnownVectorsModel()
    source = by_vectors(model)
    await source.compare([AUTO, BOAT, AUTO], before := playbook(CAR, BOAT))
    stamp = before.slots[0].created
    added = StoredBullet(2, before.slots[0].bullet.replace_fields(id="b-2", content="new"), stamp, stamp, 8)
    after = before.advance(8, [SlotChange(2, None, added)])
    similarity = await source.compare([BOAT], after)
    assert model.embedded == [[AUTO, BOAT], [CAR], ["new"]]
    assert similarity.compute_cosine(BOAT, CAR) == 0.0


async def test_a_matrix_drops_texts_that_left_the_playbook() -> None:
    source = by_vectors()
    await source.compare([CAR], playbook(*(f"text {number}" for number in range(SPARE_ROWS + 100))))
    await source.compare([CAR], book := playbook(BOAT, AUTO))
    assert len(source._matrices["d"].matrix) == 2
    found, score = (await source.compare([CAR], book)).find_nearest(CAR, book.list_bullets())
    assert found is book.list_bullets()[1]
    assert score == pytest.approx(0.95, abs=1e-4)


async def test_without_the_model_nothing_is_compared() -> None:
    model = KnownVectorsModel()
    model.error = EmbeddingFailed("HTTP 500")
    with pytest.raises(SimilarityUnavailable, match=r"HTTP 500; CURATION_SIMILARITY=words needs no"):
        await by_vectors(model).compare([CAR], playbook(BOAT))


async def test_an_empty_playbook_has_no_similar_bullet() -> None:
    similarity = await by_vectors().compare([CAR], playbook())
    assert similarity.find_nearest(CAR, []) == (None, 0.0)
    assert similarity.rank(CAR, [], 3) == []


async def test_thresholds_are_those_of_the_model_or_the_setting() -> None:
    assert (await by_vectors().compare([CAR])).thresholds == Hashing.thresholds
    assert max(MINILM, Hashing.thresholds) == STRICTEST._replace(query_match=MINILM.query_match)
    assert not (await by_vectors(same_meaning=0.96).compare([CAR, AUTO])).is_same(CAR, AUTO)
    assert (await by_vectors().compare([CAR, AUTO])).is_same(CAR, AUTO)


async def test_the_most_similar_bullets_of_each_lesson_are_relevant() -> None:
    book = large(BOAT, "park", AUTO)
    similarity = await by_vectors().compare([CAR, BOAT], book)
    found = select_relevant(similarity, [CAR, BOAT], book.list_bullets(), 2)
    assert [stored.bullet.content for stored in found] == [BOAT, AUTO]
    words = select_relevant(WORDS, [CAR], book.list_bullets(), 3)
    assert [stored.bullet.content for stored in words] == [BOAT, "park", AUTO]


TEXTS = st.sampled_from(
    [
        *VECTORS,
        "never park the car",
        'call `pay`: it fails with "no funds"',
        'do not call `pay`: it fails with "no funds"',
        'call `pay` with "no rights"',
        'it said "no funds"',
        "",
    ]
)


@given(TEXTS, st.lists(TEXTS, max_size=6), st.integers(0, 2**32 - 1))
def test_the_matrix_gives_the_scores_of_single_pairs(lesson: str, contents: list[str], seed: int) -> None:
    book = playbook(*contents)
    texts = list(dict.fromkeys([*contents, lesson]))
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(len(texts), 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    by_text = dict(zip(texts, vectors, strict=True))
    matrix = TextMatrix()
    for text in dict.fromkeys(contents):
        matrix.append([text], by_text[text][np.newaxis])
    similarity = EmbeddingSimilarity("m", Hashing.thresholds, matrix, {lesson: by_text[lesson]})
    found, score = similarity.find_nearest(lesson, book.list_bullets())
    expected, expected_score = Similarity.find_nearest(similarity, lesson, book.list_bullets())
    assert score == pytest.approx(expected_score, abs=1e-6)
    if found is not expected:
        assert found is not None
        assert expected is not None
        assert similarity.score(lesson, found.bullet.content) == pytest.approx(expected_score, abs=1e-6)


@pytest.mark.parametrize(("first", "other"), [(CAR, CAR), ("", ""), (CAR, "")])
def test_the_same_text_is_the_same_lesson_by_any_similarity(first: str, other: str) -> None:
    assert WORDS.is_same(first, other) is (first == other)


async def test_a_matrix_has_the_texts_of_every_snapshot_also_of_an_older_one_and_of_edited_bullets() -> None:
    model = KnownVectorsModel()
    source = by_vectors(model)
    before = playbook(CAR, BOAT)
    edited = replace(before.slots[0], bullet=before.slots[0].bullet.replace_fields(content=AUTO))
    voted = replace(before.slots[1], bullet=before.slots[1].bullet.replace_fields(helpful=1))
    after = before.advance(8, [SlotChange(0, before.slots[0], edited), SlotChange(1, before.slots[1], voted)])
    for book, nearest in ((before, CAR), (after, AUTO), (before, CAR)):
        found, _ = (await source.compare([CAR], book)).find_nearest(CAR, book.list_bullets())
        assert found is not None
        assert found.bullet.content == nearest
    await source.compare([BOAT], playbook(*(f"text {number}" for number in range(SPARE_ROWS + 100))))
    await source.compare([BOAT], playbook("text 1"))  # drops the others
    found, _ = (await source.compare([CAR], before)).find_nearest(CAR, before.list_bullets())
    assert found is before.slots[0]
