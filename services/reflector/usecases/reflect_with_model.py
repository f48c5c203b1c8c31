"""Reflects on a run with a chat model: insights in iterations, then a verdict on each used bullet (R-07 to R-21)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from chassis.logging import get_logger
from services.reflector.domain.actions import Action, actions_of
from services.reflector.domain.anchoring import nearest_steps
from services.reflector.domain.outcome import outcome_of
from services.reflector.domain.reduction import Transcript, reduced
from services.reflector.domain.reflection import Bullet, BulletEvaluation, Insight, ReflectionResult, Tag
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Trajectory
from services.reflector.domain.votes import resolved
from services.reflector.prompts.builder import ReflectorPrompts
from services.reflector.usecases.ports import Message, ReflectionModel
from services.reflector.usecases.reflect_offline import blame

MAX_INSIGHTS = 200
MAX_TEXT_CHARS = 20_000
MAX_STEPS_NAMED = 1_000

_log = get_logger(__name__)

LessonText = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]


class InsightReply(BaseModel):
    """One lesson as a model writes it; ``steps`` are the numbers the prompt shows."""

    reasoning: LessonText
    error_identification: LessonText
    root_cause_analysis: LessonText
    correct_approach: LessonText
    key_insight: LessonText
    steps: Annotated[list[int], BeforeValidator(lambda steps: [] if steps is None else steps)] = Field(
        default=[], max_length=MAX_STEPS_NAMED
    )


class InsightsReply(BaseModel):
    """The lessons of one iteration; one that is not valid makes the whole reply unusable (R-30)."""

    insights: list[InsightReply] = Field(max_length=MAX_INSIGHTS)


class VerdictReply(BaseModel):
    """A verdict as a model writes it; whichever bullet it names, the one that was asked about is meant (R-17)."""

    bullet_id: str = ""
    tag: Tag
    reason: LessonText


class UnknownStepsError(ValueError):
    """A model named steps that the run does not have, twice."""


class ReflectorAgent:
    """Reflects with a model; what fails is logged and shows in the result, it is never raised (R-21)."""

    def __init__(self, model: ReflectionModel, prompts: ReflectorPrompts, transcript_chars: int) -> None:
        """`transcript_chars` is how much of a run's transcript goes into a prompt."""
        self._model = model
        self._prompts = prompts
        self._transcript_chars = transcript_chars

    async def run(self, request: ReflectionRequest) -> ReflectionResult:
        """The reflection on `request`; R-07 and R-29 were checked when it was made."""
        try:
            return await self._reflect(request)
        except Exception:
            _log.exception("reflection failed; nothing is learned from this trajectory")
            return self._result(request, [], [], 0, None)

    async def _reflect(self, request: ReflectionRequest) -> ReflectionResult:
        trajectory = request.trajectory
        actions, transcript = await asyncio.to_thread(self._read, trajectory)
        used, unknown = resolved(trajectory.used_bullet_ids, request.bullets)
        for bullet_id in unknown:
            _log.warning("used bullet is not in the playbook; skipping it", bullet=bullet_id)
        insights: list[Insight] = []
        completed = 0
        for iteration in range(1, request.max_iterations + 1):
            try:
                insights = await self._iteration(request, transcript, used, insights)
                completed += 1
            except Exception as error:
                _log.warning(
                    "iteration failed", iteration=iteration, iterations=request.max_iterations, error=str(error)
                )
        evaluations = [await self._evaluation(request, bullet) for bullet in used]
        return await asyncio.to_thread(self._result, request, insights, evaluations, completed, actions)

    def _read(self, trajectory: Trajectory) -> tuple[tuple[Action, ...], Transcript]:
        """The calls of a run and its transcript for a prompt; long runs take long, so this runs in a thread."""
        actions = actions_of(trajectory.transcript)
        return actions, reduced(trajectory, actions, self._transcript_chars)

    async def _iteration(
        self, request: ReflectionRequest, transcript: Transcript, used: Sequence[Bullet], previous: Sequence[Insight]
    ) -> list[Insight]:
        """The insights of one iteration. A reply that rests on steps that do not exist is asked for once more."""
        prompt = self._prompts.for_insights(request, transcript, used, previous)
        messages: list[Message] = [("human", prompt)]
        reply = await self._model.reply(messages, InsightsReply)
        numbers = _numbers_of(request.trajectory)
        unknown = _unknown_steps(reply, numbers)
        if unknown:
            objection = self._prompts.objection(unknown, numbers)
            reply = await self._model.reply(
                [*messages, ("ai", reply.model_dump_json()), ("human", objection)], InsightsReply
            )
            unknown = _unknown_steps(reply, numbers)
        if unknown:
            raise UnknownStepsError(f"the insights rest on steps that do not exist: {unknown}")
        return await asyncio.to_thread(_insights, reply, request.trajectory)

    async def _evaluation(self, request: ReflectionRequest, bullet: Bullet) -> BulletEvaluation:
        try:
            prompt = self._prompts.for_bullet(request, bullet)
            verdict = await self._model.reply([("human", prompt)], VerdictReply)
        except Exception as error:
            _log.warning("evaluation of a bullet failed", bullet=bullet.id, error=str(error))
            reason = f"Evaluation failed: {error}"
            return BulletEvaluation(bullet_id=bullet.id, tag="neutral", reason=reason[:MAX_TEXT_CHARS])
        return BulletEvaluation(bullet_id=bullet.id, tag=verdict.tag, reason=verdict.reason)

    def _result(
        self,
        request: ReflectionRequest,
        insights: Sequence[Insight],
        evaluations: Sequence[BulletEvaluation],
        completed: int,
        actions: Sequence[Action] | None,
    ) -> ReflectionResult:
        trajectory = request.trajectory
        outcome = outcome_of(trajectory, request.ground_truth, request.test_report)
        return ReflectionResult(
            insights=tuple(insights),
            bullet_evaluations=tuple(evaluations),
            trajectory_query=trajectory.query,
            trajectory_dataset=trajectory.dataset,
            iteration_count=completed,
            trajectory_id=trajectory.id,
            attribution=None if outcome.succeeded or actions is None else blame(trajectory, actions),
            succeeded=outcome.succeeded,
            signal=outcome.signal,
            model=self._model.name,
            used_bullet_ids=trajectory.used_bullet_ids,
        )


def _numbers_of(trajectory: Trajectory) -> range:
    """The step numbers a prompt shows."""
    first = trajectory.first_step_number
    return range(first, first + len(trajectory.transcript))


def _unknown_steps(reply: InsightsReply, numbers: range) -> list[int]:
    named = {number for insight in reply.insights for number in insight.steps}
    return sorted(number for number in named if number not in numbers)


def _insights(reply: InsightsReply, trajectory: Trajectory) -> list[Insight]:
    """The lessons with indices instead of numbers.

    One that names no step gets the step it speaks of, and one that speaks of none gets the last: it is about the run.
    """
    silent = [item for item in reply.insights if not item.steps]
    texts = [f"{item.error_identification}\n{item.root_cause_analysis}\n{item.reasoning}" for item in silent]
    steps = trajectory.transcript
    last = steps[-1].index if steps else None
    found = nearest_steps(texts, steps) if texts else []
    nearest = iter(last if index is None else index for index in found)
    return [_insight(item, trajectory, None if item.steps else next(nearest)) for item in reply.insights]


def _insight(item: InsightReply, trajectory: Trajectory, nearest: int | None) -> Insight:
    steps = {number - trajectory.first_step_number for number in item.steps}
    if nearest is not None:
        steps.add(nearest)
    return Insight(**item.model_dump(exclude={"steps"}), steps=tuple(sorted(steps)))
