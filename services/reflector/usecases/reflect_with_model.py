"""Reflects on a trajectory with a chat model, one call an iteration; by rules if the model fails (R-07 to R-21)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from chassis.errors import HanseiError
from chassis.logging import get_logger
from libs.llm.fitting import ask_within_context
from libs.trajectories.actions import ToolUse, extract_actions
from services.reflector.domain.outcome import determine_outcome
from services.reflector.domain.reduction import format_line, reduce_transcript
from services.reflector.domain.reflection import Attribution, BulletEvaluation, Insight, ReflectionResult, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.votes import resolve_bullets
from services.reflector.prompts.builder import Message, ReflectorPrompts
from services.reflector.prompts.record import PromptRecord, build_record
from services.reflector.usecases.model_replies import (
    MAX_TEXT_CHARS,
    InsightsReply,
    ReflectionReply,
    VerdictReply,
    compute_step_numbers,
    find_unknown_steps,
    get_ids,
    join_problems,
    read_attribution,
    read_insights,
    read_votes,
)
from services.reflector.usecases.ports import ReflectionModel
from services.reflector.usecases.reflect_offline import attribute_failure, reflect_by_rules

RULES_INSTEAD = "the model {model} failed, and the rules reflected instead: {problem}"

_log = get_logger(__name__)


@dataclass(slots=True)
class _Progress:
    """The findings of the completed iterations; `reply` is that of the last one with the built-in prompt."""

    insights: list[Insight] = field(default_factory=list)
    completed: int = 0
    reply: ReflectionReply | None = None
    record: PromptRecord | None = None
    problems: list[str] = field(default_factory=list)


class ReflectorAgent:
    """Reflects with a model. If no call succeeds the rules reflect instead, and the result says why (R-21)."""

    def __init__(self, model: ReflectionModel, prompts: ReflectorPrompts, record_chars: int) -> None:
        """Limit the record of a trajectory in a prompt to about `record_chars` characters."""
        self._model = model
        self._prompts = prompts
        self._record_chars = record_chars

    async def run(self, request: ReflectionRequest) -> ReflectionResult:
        """Return the reflection on `request`, which is validated already (R-07, R-29)."""
        try:
            actions = await asyncio.to_thread(extract_actions, request.trajectory.transcript)
            progress = await self._iterate(request, actions)
            if progress.completed:
                return await self._build_result(request, actions, progress)
            problem = join_problems(progress.problems)
        except Exception as error:
            _log.exception("reflection with the model failed; reflecting with the rules")
            problem = _describe(error)
        result = await asyncio.to_thread(reflect_by_rules, request)
        return result.model_copy(update={"error": RULES_INSTEAD.format(model=self._model.name, problem=problem)})

    async def _iterate(self, request: ReflectionRequest, actions: Sequence[ToolUse]) -> _Progress:
        progress = _Progress()
        for iteration in range(1, request.max_iterations + 1):
            try:
                await ask_within_context(
                    lambda chars: self._run_iteration(request, actions, progress, chars),
                    self._record_chars,
                    self._model.find_context_tokens,
                )
                progress.completed += 1
            except Exception as error:
                progress.problems.append(_describe(error))
                _log.warning(
                    "iteration failed", iteration=iteration, iterations=request.max_iterations, error=str(error)
                )
        return progress

    async def _run_iteration(
        self, request: ReflectionRequest, actions: Sequence[ToolUse], progress: _Progress, chars: int
    ) -> None:
        """Ask for the lessons of one iteration. A reply that names steps that do not exist is rejected once."""
        texts = self._prompts.get_texts(request)
        record = await asyncio.to_thread(build_record, request, actions, texts, chars)
        own = await asyncio.to_thread(self._build_own_prompt, request, actions, record, progress.insights, chars)
        messages: list[Message] = (
            self._prompts.build_messages(request, record, progress.insights) if own is None else [("human", own)]
        )
        shape: type[ReflectionReply] | type[InsightsReply] = ReflectionReply if own is None else InsightsReply
        reply: ReflectionReply | InsightsReply = await self._model.reply(messages, shape, progress.problems.append)
        numbers = compute_step_numbers(request.trajectory)
        unknown = find_unknown_steps(reply, numbers)
        if unknown:
            objection = self._prompts.build_objection(request, unknown, numbers)
            conversation = [*messages, ("ai", reply.model_dump_json()), ("human", objection)]
            reply = await self._model.reply(conversation, shape, progress.problems.append)
        ids = get_ids(record)
        progress.insights = await asyncio.to_thread(
            read_insights, reply, request.trajectory, ids, progress.problems.append
        )
        progress.record = record
        if isinstance(reply, ReflectionReply):
            progress.reply = reply

    def _build_own_prompt(
        self,
        request: ReflectionRequest,
        actions: Sequence[ToolUse],
        record: PromptRecord,
        previous: Sequence[Insight],
        chars: int,
    ) -> str | None:
        """Return the prompt from a template of the user, None without one."""
        used, _ = resolve_bullets(request.trajectory.used_bullet_ids, request.bullets)
        transcript = reduce_transcript(request.trajectory, actions, chars, format_line)
        return self._prompts.build_own_prompt(request, record, transcript, used, previous)

    async def _build_result(
        self, request: ReflectionRequest, actions: Sequence[ToolUse], progress: _Progress
    ) -> ReflectionResult:
        trajectory = request.trajectory
        outcome = determine_outcome(trajectory, request.ground_truth, request.test_report)
        attribution = None
        if not outcome.is_success:
            attribution = await asyncio.to_thread(_attribute, request, actions, progress)
        return ReflectionResult(
            insights=tuple(progress.insights),
            bullet_evaluations=tuple(await self._vote(request, progress)),
            trajectory_query=trajectory.query,
            trajectory_dataset=trajectory.dataset,
            iteration_count=progress.completed,
            trajectory_id=trajectory.id,
            attribution=attribution,
            is_success=outcome.is_success,
            signal=outcome.signal,
            model=self._model.name,
            used_bullet_ids=trajectory.used_bullet_ids,
            task_id=trajectory.task_id,
            error=join_problems(progress.problems),
        )

    async def _vote(self, request: ReflectionRequest, progress: _Progress) -> list[BulletEvaluation]:
        """Return the votes: those of the reply, or from one call for each used bullet with a template of the user."""
        used, unknown = resolve_bullets(request.trajectory.used_bullet_ids, request.bullets)
        for bullet_id in unknown:
            _log.warning("used bullet is not in the playbook; skipping it", bullet=bullet_id)
        record = progress.record
        if record is None:
            return []
        if progress.reply is not None and not self._prompts.has_own_bullet_prompt():
            return read_votes(progress.reply, record)
        return [await self._evaluate_bullet(request, record, bullet) for bullet in used]

    async def _evaluate_bullet(
        self, request: ReflectionRequest, record: PromptRecord, bullet: UsedBullet
    ) -> BulletEvaluation:
        try:
            prompt = self._prompts.build_bullet_prompt(request, record, bullet)
            verdict = await self._model.reply([("human", prompt)], VerdictReply)
        except Exception as error:
            _log.warning("evaluation of a bullet failed", bullet=bullet.id, error=str(error))
            reason = f"Evaluation failed: {error}"
            return BulletEvaluation(bullet_id=bullet.id, tag="neutral", reason=reason[:MAX_TEXT_CHARS])
        return BulletEvaluation(bullet_id=bullet.id, tag=verdict.tag, reason=verdict.reason)


def _attribute(request: ReflectionRequest, actions: Sequence[ToolUse], progress: _Progress) -> Attribution | None:
    """Return the candidates of the model; those of the rules if a template of the user did not ask for them."""
    if progress.reply is None:
        return attribute_failure(request.trajectory, actions)
    return read_attribution(progress.reply, request.trajectory)


def _describe(error: Exception) -> str:
    return error.message if isinstance(error, HanseiError) else type(error).__name__
