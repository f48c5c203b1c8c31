"""Calls of judging models, with retries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from chassis.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument
from chassis.logging import get_logger
from chassis.retry import RetryPolicy
from services.validator.usecases.ports import JudgeCall, JudgeModel, JudgeQuestion, S

Sleep = Callable[[float], Awaitable[None]]

RETRY = RetryPolicy(first_pause=0.5, longest_pause=20.0)

log = get_logger("hansei.validator")


class JudgeFailed(Exception):
    """All calls failed; `retries` of them were repetitions."""

    def __init__(self, retries: int, cause: Exception) -> None:
        super().__init__(str(cause))
        self.retries = retries
        self.cause = cause


class RetryingJudge:
    """Retries failed calls by the retry policy. Sleep and rng (0..1) are injected for tests."""

    def __init__(
        self, model: JudgeModel, sleep: Sleep = asyncio.sleep, rng: Callable[[], float] = random.random
    ) -> None:
        self._model = model
        self._sleep = sleep
        self._rng = rng

    async def judge(self, call: JudgeCall, question: JudgeQuestion, shape: type[S]) -> S:
        """Return the first answer that fits. Raises JudgeFailed after the last call, and final errors at once."""
        try:
            answer, _ = await replace(RETRY, attempts=call.max_retries + 1).run(
                lambda: self._model.judge(call, question, shape),
                _is_transient,
                before_pause=lambda attempt, pause, error: log.warning(
                    "judge failed; trying again", model=str(call.model), pause_seconds=round(pause, 1), error=str(error)
                ),
                sleep=self._sleep,
                rng=self._rng,
            )
        except Exception as error:
            if not _is_transient(error):
                raise
            raise JudgeFailed(call.max_retries, error) from error
        return answer


def _is_transient(error: BaseException) -> bool:
    final = (FailedPrecondition, InvalidArgument, DeadlineExceeded)
    return isinstance(error, Exception) and not isinstance(error, final)
