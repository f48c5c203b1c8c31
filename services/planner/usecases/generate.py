"""Generate one answer to a question; a failure is an outcome, too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from chassis.errors import HanseiError
from chassis.logging import get_logger
from services.planner.domain.generation import (
    AnswerStatus,
    GeneratedAnswer,
    GenerationOutcome,
    Question,
    list_cited_ids,
    list_used_ids,
)
from services.planner.domain.plans import utc_now
from services.planner.usecases.ports import Answerer

_log = get_logger(__name__)


class GeneratorAgent:
    """Answers questions and reports which bullets were used and which are cited (P-113 to P-122)."""

    def __init__(self, answerer: Answerer, clock: Callable[[], datetime] = utc_now) -> None:
        """`clock` gives aware UTC times."""
        self._answerer = answerer
        self._clock = clock

    async def generate(self, question: Question) -> GenerationOutcome:
        """Return the outcome. Raises nothing: a failure is an outcome with the text of the error (P-121)."""
        try:
            answer = await self._answerer.answer(question)
        except Exception as error:
            _log.warning("generation failed", error=str(error), exc_info=not isinstance(error, HanseiError))
            return self._build_outcome(question, GeneratedAnswer(""), f"{type(error).__name__}: {error}")
        return self._build_outcome(question, answer, None)

    def _build_outcome(
        self, question: Question, answer: GeneratedAnswer, error_message: str | None
    ) -> GenerationOutcome:
        return GenerationOutcome(
            query=question.query,
            dataset=question.dataset,
            generated_answer=answer.text,
            reasoning_steps=tuple(answer.reasoning_steps),
            used_bullet_ids=list_used_ids(question.bullets),
            cited_bullet_ids=list_cited_ids(answer.text, question.bullets),
            status=AnswerStatus.SUCCESS if error_message is None else AnswerStatus.FAILURE,
            error_message=error_message,
            created_at=self._clock(),
            model=self._answerer.name,
        )
