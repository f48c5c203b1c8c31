"""Lets a judge compare submissions in pairs, in both orders, and ranks the contestants."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from pydantic import BaseModel, ConfigDict

from chassis.logging import get_logger
from chassis.server.cpu import CpuPool
from libs.prompts.language import LanguageSetting, choose_language
from services.validator.domain.comparisons import (
    Comparison,
    ComparisonRanking,
    Preference,
    RankingOptions,
    refuse_too_many_contestants,
)
from services.validator.domain.errors import ComparisonsInvalid, NotIdentifiable
from services.validator.domain.evaluation import ModelId
from services.validator.prompts.instructions import JUDGE_INSTRUCTIONS
from services.validator.usecases.judging import JudgeFailed, RetryingJudge
from services.validator.usecases.ports import JudgeCall, JudgeQuestion, QuestionSubject

DEFAULT_MAX_COMPARISONS = 2000
TEMPERATURE = 0.0
TIMEOUT_SECONDS = 60.0
MAX_RETRIES = 3

log = get_logger("hansei.validator")


class JudgedPreference(BaseModel):
    """The answer of the judge of a pair."""

    model_config = ConfigDict(frozen=True)

    preference: Literal["first", "second", "tie"]
    reasoning: str


@dataclass(frozen=True, slots=True)
class ContestantSubmission:
    """The submission of one contestant for a task."""

    id: str
    content: str


@dataclass(frozen=True, slots=True)
class ComparisonTask:
    """One task and the submissions for it, one per contestant."""

    task_id: str
    user_query: str
    submissions: tuple[ContestantSubmission, ...]


@dataclass(frozen=True, slots=True)
class Tournament:
    """All comparisons, and the ranking or why there is none."""

    comparisons: tuple[Comparison, ...]
    ranking: ComparisonRanking | None
    not_ranked_because: str = ""


class RankComparisons:
    """Ranks contestants on the threads of a pool, so that large rankings delay only other rankings."""

    def __init__(self, pool: CpuPool) -> None:
        self._pool = pool

    async def __call__(self, comparisons: Sequence[Comparison], options: RankingOptions) -> ComparisonRanking:
        """Return the ranking of all contestants. Raises ComparisonsInvalid, NotIdentifiable."""
        refuse_too_many_contestants(
            "comparisons", (name for item in comparisons for name in (item.first_id, item.second_id))
        )
        return await self._pool.run(_rank, comparisons, options)


def _rank(comparisons: Sequence[Comparison], options: RankingOptions) -> ComparisonRanking:
    # NumPy takes long to import, and few processes ever rank.
    from services.validator.domain.bradley_terry import rank_comparisons

    return rank_comparisons(comparisons, options)


@dataclass(frozen=True, slots=True)
class _Pair:
    task: ComparisonTask
    first: ContestantSubmission
    second: ContestantSubmission


class CompareSubmissions:
    """Compares with the models of its judge; a failed call is unmeasured, neither win nor loss nor tie."""

    def __init__(
        self,
        judge: RetryingJudge,
        rank: RankComparisons,
        default_model: str,
        language: LanguageSetting = "ja",
        *,
        concurrency: int = 16,
    ) -> None:
        self._judge = judge
        self._rank = rank
        self._default_model = default_model
        self._language: LanguageSetting = language
        self._concurrency = concurrency

    async def __call__(
        self,
        tasks: Sequence[ComparisonTask],
        options: RankingOptions,
        model: str | None = None,
        max_comparisons: int = DEFAULT_MAX_COMPARISONS,
    ) -> Tournament:
        """Compare every pair of every task in both orders. Raises ComparisonsInvalid, ModelIdInvalid."""
        refuse_too_many_contestants("tasks", (item.id for task in tasks for item in task.submissions))
        pairs = list(_iterate_pairs(tasks))
        if len(pairs) > max_comparisons:
            raise ComparisonsInvalid(
                f"{len(pairs)} comparisons are needed and max_comparisons is {max_comparisons}: "
                "raise it or send fewer tasks or submissions"
            )
        model_id = ModelId.parse(model or self._default_model)
        call = JudgeCall(model_id, TEMPERATURE, TIMEOUT_SECONDS, MAX_RETRIES)
        comparisons = await self._compare_pairs(pairs, call)
        try:
            ranking = await self._rank(comparisons, options)
        except NotIdentifiable as error:
            return Tournament(comparisons, None, str(error))
        return Tournament(comparisons, ranking)

    async def _compare_pairs(self, pairs: Sequence[_Pair], call: JudgeCall) -> tuple[Comparison, ...]:
        slots = asyncio.Semaphore(self._concurrency)

        async def compare(pair: _Pair) -> Comparison:
            async with slots:
                return await self._compare(pair, call)

        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(compare(pair)) for pair in pairs]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return tuple(task.result() for task in running)

    async def _compare(self, pair: _Pair, call: JudgeCall) -> Comparison:
        subject = QuestionSubject(pair.task.user_query, (pair.first.content, pair.second.content))
        instruction = JUDGE_INSTRUCTIONS[choose_language(self._language, pair.task.user_query)].comparison
        question = JudgeQuestion(instruction, _build_prompt(pair), subject)
        try:
            judged = await self._judge.judge(call, question, JudgedPreference)
            preference = Preference(judged.preference)
        except JudgeFailed as failed:
            log.warning(
                "judge failed; recording the comparison without a preference",
                first=pair.first.id,
                second=pair.second.id,
                error=str(failed),
            )
            preference = Preference.UNMEASURED
        return Comparison(
            pair.first.id,
            pair.second.id,
            preference,
            len(pair.first.content),
            len(pair.second.content),
            pair.task.task_id,
        )


def _iterate_pairs(tasks: Sequence[ComparisonTask]) -> Iterator[_Pair]:
    _refuse_duplicates("task", [task.task_id for task in tasks])
    for task in tasks:
        _refuse_duplicates(f"submission of task '{task.task_id}'", [item.id for item in task.submissions])
        for first, second in combinations(task.submissions, 2):
            yield _Pair(task, first, second)
            yield _Pair(task, second, first)


def _refuse_duplicates(noun: str, ids: Sequence[str]) -> None:
    duplicates = [name for name, count in Counter(ids).items() if count > 1]
    if duplicates:
        raise ComparisonsInvalid(f"duplicate {noun}: {', '.join(duplicates[:10])}")


def _build_prompt(pair: _Pair) -> str:
    """Return the request and both submissions as JSON, so that no text can pose as another part of the prompt."""
    parts = {"request": pair.task.user_query, "first": pair.first.content, "second": pair.second.content}
    return json.dumps(parts, ensure_ascii=False, indent=2)
