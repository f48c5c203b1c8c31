"""Asking a model for a judgement of a given shape, again when it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pydantic import BaseModel

from chassis.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument
from services.validator.domain.evaluation import ModelId

S = TypeVar("S", bound=BaseModel)
Sleep = Callable[[float], Awaitable[None]]

PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 20.0

log = logging.getLogger("hansei.validator")


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """Whom to ask and how: model, temperature, time limit of one call in seconds, further calls after a failure."""

    model: ModelId
    temperature: float
    timeout_seconds: float
    max_retries: int


@dataclass(frozen=True, slots=True)
class Subject:
    """What a prompt is about, for judges that work by rules instead of reading prompts."""

    user_query: str = ""
    submissions: tuple[str, ...] = ()
    metric: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What a judge is asked: who it is, the prompt, and what that is about."""

    instruction: str
    prompt: str
    subject: Subject = field(default_factory=Subject)


class JudgeModel(Protocol):
    """Models that answer in a given shape."""

    async def judge(self, call: JudgeCall, question: Question, shape: type[S]) -> S:
        """One call. A reply that does not fit the shape is a failure.

        Raises FailedPrecondition or InvalidArgument when the model cannot be asked at all.
        """
        ...


class JudgeFailed(Exception):
    """All calls failed; `retries` of them were repetitions."""

    def __init__(self, retries: int, cause: Exception) -> None:
        super().__init__(str(cause))
        self.retries = retries
        self.cause = cause


class PatientJudge:
    """Repeats failed calls with growing pauses."""

    def __init__(self, model: JudgeModel, sleep: Sleep = asyncio.sleep) -> None:
        self._model = model
        self._sleep = sleep

    async def judge(self, call: JudgeCall, question: Question, shape: type[S]) -> S:
        """The first answer that fits. Raises JudgeFailed after the last one, and what ends every call at once."""
        for attempt in range(call.max_retries + 1):
            try:
                return await self._model.judge(call, question, shape)
            except (FailedPrecondition, InvalidArgument, DeadlineExceeded):
                raise
            except Exception as error:
                if attempt == call.max_retries:
                    raise JudgeFailed(attempt, error) from error
                pause = min(LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * 2**attempt)
                pause = max(pause, min(LONGEST_PAUSE_SECONDS, getattr(error, "retry_after", None) or 0.0))
                log.warning("judge %s failed, again in %.1f s: %s", call.model, pause, error)
            await self._sleep(pause)
        raise AssertionError("unreachable: the loop returns or raises")
