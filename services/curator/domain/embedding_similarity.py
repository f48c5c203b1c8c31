"""Compare lessons and bullets by the vectors of an embedding model, with all bullets in one matrix product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from libs.embedding.model import Float32s, SimilarityThresholds
from services.curator.domain.log import StoredBullet
from services.curator.domain.similarity import Similarity, Subject, find_subject, negates

NO_SUBJECT = -1
_get_content = attrgetter("bullet.content")


class TextMatrix:
    """Vector, subject and negation of each text of a playbook. Rows are only appended, so readers need no lock."""

    def __init__(self, dimension: int = 0) -> None:
        self.rows: dict[str, int] = {}
        self._subjects: dict[Subject, int] = {}
        self._vectors = np.empty((0, dimension), np.float32)
        self._subject_numbers = np.empty(0, np.int32)
        self._negations = np.empty(0, np.bool_)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def vectors(self) -> Float32s:
        """Return the vectors of all rows, shape (len, d), unit length."""
        return self._vectors[: len(self.rows)]

    @property
    def subject_numbers(self) -> NDArray[np.int32]:
        """Return the number of each row's subject, `NO_SUBJECT` without one; shape (len,)."""
        return self._subject_numbers[: len(self.rows)]

    @property
    def negations(self) -> NDArray[np.bool_]:
        """Return True for each row whose text negates, else False; shape (len,)."""
        return self._negations[: len(self.rows)]

    def get_subject_number(self, subject: Subject) -> int:
        """Return the number of a subject; the first call assigns it."""
        return self._subjects.setdefault(subject, len(self._subjects))

    def append(self, texts: Sequence[str], vectors: Float32s) -> None:
        """Add texts that have no row, with their vectors, shape (n, d)."""
        start, end = len(self.rows), len(self.rows) + len(texts)
        if end > len(self._vectors):
            capacity = max(end, 2 * start)
            self._vectors = _grow(self._vectors.reshape(-1, vectors.shape[1]), start, capacity)
            self._subject_numbers = _grow(self._subject_numbers, start, capacity)
            self._negations = _grow(self._negations, start, capacity)
        self._vectors[start:end] = vectors
        for row, text in enumerate(texts, start):
            subject = find_subject(text)
            self._subject_numbers[row] = NO_SUBJECT if subject is None else self.get_subject_number(subject)
            self._negations[row] = negates(text)
        self.rows.update((text, row) for row, text in enumerate(texts, start))

    def select(self, texts: Iterable[str]) -> TextMatrix:
        """Return a matrix with the rows of these texts only."""
        selection = TextMatrix(self._vectors.shape[1])
        present = [text for text in texts if text in self.rows]
        selection.append(present, self.vectors[[self.rows[text] for text in present]])
        return selection


class EmbeddingSimilarity(Similarity):
    """Compares lessons with each other and with the texts of a matrix. `lessons` are their vectors, shape (d,)."""

    inline_comparisons = 2_000

    def __init__(
        self, model_id: str, thresholds: SimilarityThresholds, matrix: TextMatrix, lessons: Mapping[str, Float32s]
    ) -> None:
        self.name = f"cosine of {model_id}"
        self.thresholds = thresholds
        self._matrix = matrix
        self._lessons = lessons
        self._products: dict[str, Float32s] = {}
        self._selected: tuple[Sequence[StoredBullet], NDArray[np.intp]] = ((), np.empty(0, np.intp))
        # Slices of this moment: other comparisons may append rows meanwhile.
        self._vectors, self._subjects, self._negations = matrix.vectors, matrix.subject_numbers, matrix.negations

    def compute_cosine(self, text: str, other: str) -> float:
        """Return the cosine of the embeddings of two texts; 0 if a text has no embedding here."""
        first, second = self._find_vector(text), self._find_vector(other)
        return 0.0 if first is None or second is None else float(first @ second)

    def find_nearest(self, content: str, bullets: Sequence[StoredBullet]) -> tuple[StoredBullet | None, float]:
        """Return the first bullet with the highest score, and the score; (None, 0.0) if every score is 0."""
        cosines = self._compute_cosines(content) if bullets else None
        if cosines is None:
            return None, 0.0
        scores = self._compute_scores(content, cosines)[self._select_rows(bullets)]
        best = int(scores.argmax())
        return (bullets[best], float(scores[best])) if scores[best] > 0.0 else (None, 0.0)

    def rank(self, content: str, bullets: Sequence[StoredBullet], limit: int) -> list[StoredBullet]:
        """Return at most `limit` bullets, by the cosine of their text and `content`, best first."""
        cosines = self._compute_cosines(content) if bullets else None
        if cosines is None:
            return []
        ranked = np.argsort(-cosines[self._select_rows(bullets)], kind="stable")
        return [bullets[index] for index in ranked[:limit].tolist()]

    def _compute_cosines(self, content: str) -> Float32s | None:
        """Return the cosines of a lesson and all rows, shape (rows,); None for a text without vector.

        The first call computes those of all lessons in one product, since each product reads the whole matrix.
        """
        if not self._products and self._lessons:
            products = np.stack(list(self._lessons.values())) @ self._vectors.T
            self._products = dict(zip(self._lessons, products, strict=True))
        return self._products.get(content)

    def _compute_scores(self, content: str, cosines: Float32s) -> Float32s:
        """Return the `score` of `content` and every row, shape (rows,)."""
        thresholds = self.thresholds
        scores = np.clip(cosines, 0.0, 1.0)
        subject = find_subject(content)
        if subject is not None:
            number = self._matrix.get_subject_number(subject)
            if subject.name:
                scores[(self._subjects == number) & (scores >= thresholds.same_subject)] = 1.0
        negated = self._negations != negates(content)
        # The cap comes after the subject: a "do" and a "do not" are never the same.
        scores[negated] = np.minimum(scores[negated], np.float32(thresholds.same_subject))
        if subject is not None:
            scores[(self._subjects != NO_SUBJECT) & (self._subjects != number)] = 0.0
        return scores

    def _select_rows(self, bullets: Sequence[StoredBullet]) -> NDArray[np.intp]:
        """Return the rows of the bullets; all lessons of a reflection are compared with one sequence of bullets."""
        selected, numbers = self._selected
        if selected is not bullets or len(numbers) != len(bullets):
            rows = map(self._matrix.rows.__getitem__, map(_get_content, bullets))
            numbers = np.fromiter(rows, np.intp, len(bullets))
            self._selected = bullets, numbers
        return numbers

    def _find_vector(self, text: str) -> Float32s | None:
        lesson = self._lessons.get(text)
        if lesson is not None:
            return lesson
        row = self._matrix.rows.get(text)
        return None if row is None else self._matrix.vectors[row]


def _grow(array: NDArray, used: int, capacity: int) -> NDArray:  # type: ignore[type-arg]
    grown = np.empty((capacity, *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown
