"""Rankings cut at a budget of tokens."""

from __future__ import annotations

import numpy as np
import pytest

from services.search.domain.bullet import IndexedBullet
from services.search.domain.query import Ranking, Results
from services.search.tests.usecases.world import bullet
from services.search.usecases.fit_budget import TOKENS_OF_A_LINE, count_fitting, fit_budget


def _rank(*texts: str) -> Ranking[IndexedBullet]:
    bullets = [bullet(f"b-{number}", text) for number, text in enumerate(texts)]
    return Ranking(Results(bullets, np.zeros((5, len(bullets)))), len(bullets))


@pytest.mark.parametrize(
    ("budget", "count"),
    [(None, 3), (1_000, 3), (3 * (TOKENS_OF_A_LINE + 10), 3), (3 * (TOKENS_OF_A_LINE + 10) - 1, 2), (1, 1)],
)
def test_a_ranking_ends_where_its_texts_fill_the_budget(budget: int | None, count: int) -> None:
    ranking = _rank("x" * 40, "y" * 40, "日本語の日本語の日本")
    assert len(fit_budget(ranking, budget).results) == count


def test_a_bullet_that_does_not_fit_ends_the_ranking() -> None:
    ranking = fit_budget(_rank("short", "x" * 4_000, "short"), 100)
    assert [result.item.content for result in ranking.results] == ["short"]
    assert ranking.candidates == 3


def test_a_budget_bounds_the_number_of_bullets() -> None:
    assert [count_fitting(budget) for budget in (1, 8_000, 1_000_000)] == [1, 1_000, 10_000]
