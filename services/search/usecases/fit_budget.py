"""Cut a ranking of bullets where its texts fill a budget of tokens."""

from __future__ import annotations

from libs.llm.tokens import estimate_tokens
from services.search.domain.bullet import IndexedBullet
from services.search.domain.query import Ranking

TOKENS_OF_A_LINE = 8
"""Tokens of a bullet's line in a prompt beside its text: the id in brackets, and the end of the line."""
MAX_BULLETS = 10_000


def count_fitting(budget: int) -> int:
    """Return how many bullets may fit a budget of tokens, 1 to `MAX_BULLETS`."""
    return min(max(1, budget // TOKENS_OF_A_LINE), MAX_BULLETS)


def fit_budget(ranking: Ranking[IndexedBullet], budget: int | None) -> Ranking[IndexedBullet]:
    """Return the best bullets whose lines fit `budget` tokens together, and at least the best one; None: all.

    A bullet that does not fit ends the ranking, so that no worse one is served in its place.
    """
    if budget is None:
        return ranking
    tokens = 0
    for count, result in enumerate(ranking.results):
        tokens += TOKENS_OF_A_LINE + estimate_tokens(result.item.content)
        if tokens > budget:
            return ranking._replace(results=ranking.results[: max(1, count)])
    return ranking
