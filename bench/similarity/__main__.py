"""Measure the cosine from which two lessons are the same, for each similarity of the curator (`services/curator`).

`python -m bench.similarity` compares the lessons of `lessons.yaml`: pairs in other words (`same`), pairs on one subject
that teach different things (`near`), and all others. `same_lesson` is the first cosine from which on at most one in
fifty pairs judged equal is not; `same_subject` the same for pairs on one subject, `same` and `near`, among all.
`held_out` is what thresholds found on nine tenths of the lessons give on the other tenth. No model is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from bench.report import machine, write
from libs.embedding import minilm, multilingual
from libs.embedding.hashing import Hashing
from libs.embedding.local import LocalModel
from services.curator.domain.word_similarity import WORDS

PRECISION = 0.98
FOLDS = 10
STEPS = [round(0.01 * step, 2) for step in range(5, 100)]
LESSONS = Path(__file__).with_name("lessons.yaml")

Cosine = Callable[[str, str], float]


@dataclass(frozen=True)
class LessonWordings:
    """One lesson in several wordings, and one that only looks like it."""

    same: Sequence[str]
    near: str


@dataclass(frozen=True)
class Pairs:
    """Cosines of pairs of one lesson, of two lessons on one subject, and of two unrelated lessons."""

    same: Sequence[float]
    near: Sequence[float]
    other: Sequence[float]

    def precision(self, threshold: float) -> float:
        """Return the share of right pairs among those judged equal; 1 without any."""
        right, wrong = _count_from(self.same, threshold), _count_from([*self.near, *self.other], threshold)
        return right / (right + wrong) if right + wrong else 1.0

    def recall(self, threshold: float) -> float:
        """Return the share of equal pairs that are judged equal."""
        return _count_from(self.same, threshold) / len(self.same)


def _count_from(values: Sequence[float], threshold: float) -> int:
    return sum(value >= threshold for value in values)


def compare_pairs(lessons: Sequence[LessonWordings], cosine: Cosine) -> Pairs:
    """Return the cosines of all pairs of these lessons."""
    same = [cosine(*pair) for lesson in lessons for pair in combinations(lesson.same, 2)]
    near = [cosine(text, lesson.near) for lesson in lessons for text in lesson.same]
    others = [
        cosine(item, other)
        for first, second in combinations(lessons, 2)
        for item in (first.same[0], first.near)
        for other in (second.same[0], second.near)
    ]
    return Pairs(same, near, others)


def same_lesson(pairs: Pairs) -> float:
    """Return the first cosine from which pairs are of one lesson."""
    return _first(pairs.same, [*pairs.near, *pairs.other])


def same_subject(pairs: Pairs) -> float:
    """Return the first cosine from which pairs are at least on one subject."""
    return _first([*pairs.same, *pairs.near], pairs.other)


def _first(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Return the first cosine from which the precision holds at every higher one too."""
    holds = STEPS[-1]
    for threshold in reversed(STEPS):
        found, false = _count_from(right, threshold), _count_from(wrong, threshold)
        if found < PRECISION * (found + false):
            break
        holds = threshold
    return holds


def held_out(lessons: Sequence[LessonWordings], cosine: Cosine) -> tuple[float, float]:
    """Return precision and recall on lessons that did not set the threshold, over all folds."""
    right = wrong = total = 0
    for fold in range(FOLDS):
        threshold = same_lesson(
            compare_pairs([lesson for number, lesson in enumerate(lessons) if number % FOLDS != fold], cosine)
        )
        held_out_pairs = compare_pairs(lessons[fold::FOLDS], cosine)
        right += _count_from(held_out_pairs.same, threshold)
        wrong += _count_from([*held_out_pairs.near, *held_out_pairs.other], threshold)
        total += len(held_out_pairs.same)
    return right / max(1, right + wrong), right / total


def local_similarities(texts: Sequence[str]) -> Iterator[tuple[str, Cosine]]:
    """Yield the similarities that need no key, with their names."""
    yield WORDS.name, WORDS.compute_cosine
    models: list[LocalModel] = [Hashing()]
    folder = minilm.find_model_folder()
    if folder is not None:
        models.append(minilm.MiniLM(folder))
    if (folder := multilingual.find_model_folder()) is not None:
        models.append(multilingual.MultilingualE5(folder))
    for model in models:
        vectors = dict(zip(texts, model.compute(texts), strict=True))
        yield model.model_id, _build_cosine(vectors)


def _build_cosine(vectors: Mapping[str, Any]) -> Cosine:
    units = {text: vector / (np.linalg.norm(vector) or 1.0) for text, vector in vectors.items()}
    return lambda first, second: float(units[first] @ units[second])


def main() -> None:
    """Print and write the table."""
    lessons = [LessonWordings(**item) for item in yaml.safe_load(LESSONS.read_text(encoding="utf-8"))]
    texts = [text for lesson in lessons for text in (*lesson.same, lesson.near)]
    rows = []
    for name, cosine in local_similarities(texts):
        pairs = compare_pairs(lessons, cosine)
        threshold, (precision, recall) = same_lesson(pairs), held_out(lessons, cosine)
        row = {"measure": name, "same_lesson": threshold, "precision": pairs.precision(threshold)}
        row |= {"recall": pairs.recall(threshold), "held_out_precision": precision, "held_out_recall": recall}
        rows.append(row | {"same_subject": same_subject(pairs)})
    rows = [{key: round(item, 3) if isinstance(item, float) else item for key, item in row.items()} for row in rows]
    write("similarity", {"machine": machine(), "lessons": len(lessons), "rows": rows})


if __name__ == "__main__":
    main()
