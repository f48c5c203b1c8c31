"""The time to build prompts with ten rounds of history (B-20)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from libs.prompts.builder import UserPromptBuilder
from libs.prompts.contexts import EvaluatorPromptContext, RoundPromptContext, RoundState
from libs.prompts.settings import PromptBuilderSettings

BUILDS = 100
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Store:
    """A ranking in memory."""

    async def get_leader_board_ranking(self, execution_id: str) -> list[dict[str, Any]]:
        return [
            {"team_id": f"t{number}", "team_name": f"チーム{number}", "max_score": 90.0 - number, "total_rounds": 10}
            for number in range(20)
        ]


def prompt_times() -> list[dict[str, Any]]:
    """Return 95th percentiles in milliseconds."""
    return asyncio.run(_measure())


async def _measure() -> list[dict[str, Any]]:
    builder = UserPromptBuilder(PromptBuilderSettings())
    details = {
        "overall_score": 80.0,
        "metrics": [{"metric_name": "Coverage", "score": 80.0, "evaluator_comment": "良い"}],
    }
    history = [
        RoundState(
            round_number=number,
            submission_content="提出内容" * 200,
            evaluation_score=80.0,
            score_details=details,
            round_started_at=NOW,
            round_ended_at=NOW,
        )
        for number in range(1, 11)
    ]
    round_context = RoundPromptContext(
        user_prompt="問い",
        round_number=10,
        round_history=history,
        team_id="t3",
        team_name="チーム3",
        execution_id="e",
        store=Store(),
    )
    evaluator_context = EvaluatorPromptContext(user_query="問い", submission="提出内容" * 200)

    async def evaluator() -> str:
        return builder.build_evaluator_prompt(evaluator_context)

    return [
        await _row("evaluator prompt", 10, evaluator),
        await _row("judgment prompt", 50, lambda: builder.build_judgment_prompt(round_context)),
        await _row("team prompt", 50, lambda: builder.build_team_prompt(round_context)),
    ]


async def _row(what: str, limit_ms: int, build: Callable[[], Awaitable[str]]) -> dict[str, Any]:
    times = []
    for _ in range(BUILDS):
        began = time.perf_counter()
        await build()
        times.append(time.perf_counter() - began)
    return {"what": what, "builds": BUILDS, "p95_ms": sorted(times)[BUILDS * 95 // 100 - 1] * 1e3, "limit_ms": limit_ms}
