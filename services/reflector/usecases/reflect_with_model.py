"""Reflects on a trajectory with a chat model: insights in iterations, then one vote on each bullet (R-07 to R-21)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from chassis.logging import get_logger
from libs.trajectories.actions import ToolUse, extract_actions
from services.reflector.domain.anchoring import find_nearest_steps
from services.reflector.domain.outcome import determine_outcome
from services.reflector.domain.reduction import Transcript, reduce_transcript
from services.reflector.domain.reflection import BulletEvaluation, Insight, ReflectionResult, Tag, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Trajectory
from services.reflector.domain.votes import resolve_bullets
from services.reflector.prompts.builder import ReflectorPrompts
from services.reflector.usecases.ports import Message, ReflectionModel
from services.reflector.usecases.reflect_offline import attribute_failure

MAX_INSIGHTS = 200
MAX_TEXT_CHARS = 20_000
MAX_STEPS_NAMED = 1_000

_log = get_logger(__name__)

LessonText = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]


class InsightReply(BaseModel):
    """One lesson in a model's reply; ``steps`` are the numbers in the prompt."""

    reasoning: LessonText
    error_identification: LessonText
    root_cause_analysis: LessonText
    correct_approach: LessonText
    key_insight: LessonText
    steps: Annotated[list[int], BeforeValidator(lambda steps: [] if steps is None else steps)] = Field(
        default=[], max_length=MAX_STEPS_NAMED
    )


class InsightsReply(BaseModel):
    """The lessons of one iteration; one invalid lesson makes the whole reply unusable (R-30)."""

    insights: list[InsightReply] = Field(max_length=MAX_INSIGHTS)


class VerdictReply(BaseModel):
    """A vote in a model's reply; its ``bullet_id`` is ignored in favour of the requested bullet (R-17)."""

    bullet_id: str = ""
    tag: Tag
    reason: LessonText


class UnknownStepsError(ValueError):
    """A model named steps that the trajectory does not have, also after the objection."""


class ReflectorAgent:
    """Reflects with a model; failures are logged, reduce the result, and are never raised (R-21)."""

    def __init__(self, model: ReflectionModel, prompts: ReflectorPrompts, transcript_chars: int) -> None:
        """Limit the transcript in a prompt to about `transcript_chars` characters."""
        self._model = model
        self._prompts = prompts
        self._transcript_chars = transcript_chars

    async def run(self, request: ReflectionRequest) -> ReflectionResult:
        """Return the reflection on `request`, which is validated already (R-07, R-29)."""
        try:
            return await self._reflect(request)
        except Exception:
            _log.exception("reflection failed; nothing is learned from this trajectory")
            return self._build_result(request, [], [], 0, None)

    async def _reflect(self, request: ReflectionRequest) -> ReflectionResult:
        trajectory = request.trajectory
        actions, transcript = await asyncio.to_thread(self._read, trajectory)
        used, unknown = resolve_bullets(trajectory.used_bullet_ids, request.bullets)
        for bullet_id in unknown:
            _log.warning("used bullet is not in the playbook; skipping it", bullet=bullet_id)
        insights: list[Insight] = []
        completed = 0
        for iteration in range(1, request.max_iterations + 1):
            try:
                insights = await self._run_iteration(request, transcript, used, insights)
                completed += 1
            except Exception as error:
                _log.warning(
                    "iteration failed", iteration=iteration, iterations=request.max_iterations, error=str(error)
                )
        evaluations = [await self._evaluate_bullets(request, bullet) for bullet in used]
        return await asyncio.to_thread(self._build_result, request, insights, evaluations, completed, actions)

    def _read(self, trajectory: Trajectory) -> tuple[tuple[ToolUse, ...], Transcript]:
        """Return the calls of a trajectory and its transcript for a prompt."""
        actions = extract_actions(trajectory.transcript)
        return actions, reduce_transcript(trajectory, actions, self._transcript_chars)

    async def _run_iteration(
        self,
        request: ReflectionRequest,
        transcript: Transcript,
        used: Sequence[UsedBullet],
        previous: Sequence[Insight],
    ) -> list[Insight]:
        """Return the insights of one iteration. A reply that names steps that do not exist is rejected once."""
        prompt = self._prompts.build_insights_prompt(request, transcript, used, previous)
        messages: list[Message] = [("human", prompt)]
        reply = await self._model.reply(messages, InsightsReply)
        numbers = _compute_step_numbers(request.trajectory)
        unknown = _find_unknown_steps(reply, numbers)
        if unknown:
            build_objection = self._prompts.build_objection(request, unknown, numbers)
            reply = await self._model.reply(
                [*messages, ("ai", reply.model_dump_json()), ("human", build_objection)], InsightsReply
            )
            unknown = _find_unknown_steps(reply, numbers)
        if unknown:
            raise UnknownStepsError(f"the insights cite steps that do not exist: {unknown}")
        return await asyncio.to_thread(_renumber_insights, reply, request.trajectory)

    async def _evaluate_bullets(self, request: ReflectionRequest, bullet: UsedBullet) -> BulletEvaluation:
        try:
            prompt = self._prompts.build_bullet_prompt(request, bullet)
            verdict = await self._model.reply([("human", prompt)], VerdictReply)
        except Exception as error:
            _log.warning("evaluation of a bullet failed", bullet=bullet.id, error=str(error))
            reason = f"Evaluation failed: {error}"
            return BulletEvaluation(bullet_id=bullet.id, tag="neutral", reason=reason[:MAX_TEXT_CHARS])
        return BulletEvaluation(bullet_id=bullet.id, tag=verdict.tag, reason=verdict.reason)

    def _build_result(
        self,
        request: ReflectionRequest,
        insights: Sequence[Insight],
        evaluations: Sequence[BulletEvaluation],
        completed: int,
        actions: Sequence[ToolUse] | None,
    ) -> ReflectionResult:
        trajectory = request.trajectory
        outcome = determine_outcome(trajectory, request.ground_truth, request.test_report)
        return ReflectionResult(
            insights=tuple(insights),
            bullet_evaluations=tuple(evaluations),
            trajectory_query=trajectory.query,
            trajectory_dataset=trajectory.dataset,
            iteration_count=completed,
            trajectory_id=trajectory.id,
            attribution=None if outcome.is_success or actions is None else attribute_failure(trajectory, actions),
            is_success=outcome.is_success,
            signal=outcome.signal,
            model=self._model.name,
            used_bullet_ids=trajectory.used_bullet_ids,
        )


def _compute_step_numbers(trajectory: Trajectory) -> range:
    """Return the numbers of the trajectory's steps in the prompt."""
    first = trajectory.first_step_number
    return range(first, first + len(trajectory.transcript))


def _find_unknown_steps(reply: InsightsReply, numbers: range) -> list[int]:
    named = {number for insight in reply.insights for number in insight.steps}
    return sorted(number for number in named if number not in numbers)


def _renumber_insights(reply: InsightsReply, trajectory: Trajectory) -> list[Insight]:
    """Return the lessons with step indices instead of step numbers.

    A lesson without steps gets the step that it refers to, or the last step if it refers to none.
    """
    silent = [item for item in reply.insights if not item.steps]
    texts = [f"{item.error_identification}\n{item.root_cause_analysis}\n{item.reasoning}" for item in silent]
    steps = trajectory.transcript
    last = steps[-1].index if steps else None
    found = find_nearest_steps(texts, steps) if texts else []
    nearest = iter(last if index is None else index for index in found)
    return [_renumber_insight(item, trajectory, None if item.steps else next(nearest)) for item in reply.insights]


def _renumber_insight(item: InsightReply, trajectory: Trajectory, nearest: int | None) -> Insight:
    steps = {number - trajectory.first_step_number for number in item.steps}
    if nearest is not None:
        steps.add(nearest)
    return Insight(**item.model_dump(exclude={"steps"}), steps=tuple(sorted(steps)))
