"""Reflects on a trajectory by deterministic rules, without any model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from chassis.logging import get_logger
from libs.trajectories.actions import ToolUse, extract_actions
from services.reflector.domain.action_rules import find_repeated_calls, find_tool_errors
from services.reflector.domain.answer_rules import find_answer_errors
from services.reflector.domain.attribution import rank_candidates
from services.reflector.domain.contradictions import find_contradictions
from services.reflector.domain.contrast import find_contrast
from services.reflector.domain.findings import TrajectoryFinding
from services.reflector.domain.language import detect_language
from services.reflector.domain.observations import observe_calls
from services.reflector.domain.outcome import Outcome, determine_outcome
from services.reflector.domain.reflection import Attribution, Insight, ReflectionResult
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.targets import add_targets
from services.reflector.domain.trajectory import Trajectory
from services.reflector.domain.votes import resolve_bullets, vote_on_bullets
from services.reflector.domain.wording import LanguageTexts, load_wording, write_attribution, write_lesson

MODEL = "offline"
MAX_INSIGHTS = 20
MAX_CANDIDATES = 5
"""Steps that an attribution names: the most probable one and the next ones."""

INLINE_STEPS = 6
INLINE_CHARACTERS = 5_000
"""Steps and characters of a trajectory that is reflected on without a thread."""

_log = get_logger(__name__)


class OfflineReflector:
    """Reflects by deterministic rules, always in one iteration."""

    async def run(self, request: ReflectionRequest) -> ReflectionResult:
        """Return the lessons, the votes and, of a failed trajectory, the blamed step. Deterministic."""
        return reflect_by_rules(request) if _is_small(request) else await asyncio.to_thread(reflect_by_rules, request)


def _is_small(request: ReflectionRequest) -> bool:
    """Return whether a reflection takes so little time that a thread hand-over would double it."""
    trajectory, steps = request.trajectory, request.trajectory.transcript
    if request.siblings or len(steps) > INLINE_STEPS:
        return False
    texts = [request.ground_truth, request.test_report, trajectory.query, trajectory.generated_answer]
    for step in steps:
        texts += (step.content, *(call.arguments for call in step.tool_calls))
    return sum(map(len, texts)) <= INLINE_CHARACTERS


def reflect_by_rules(request: ReflectionRequest) -> ReflectionResult:
    """Return the reflection by rules on `request`; time and memory are linear in the steps."""
    trajectory = request.trajectory
    steps = trajectory.transcript
    actions = extract_actions(steps)
    outcome = determine_outcome(trajectory, request.ground_truth, request.test_report)
    wording = load_wording(detect_language(trajectory))
    used, unknown = resolve_bullets(trajectory.used_bullet_ids, request.bullets)
    if unknown:
        _log.warning("used bullets are not in the playbook", bullets=len(unknown), first=unknown[0])
    return ReflectionResult(
        insights=add_targets(write_insights(_find_errors(request, actions, outcome), wording), steps, actions),
        bullet_evaluations=tuple(vote_on_bullets(used, trajectory, actions, outcome)),
        trajectory_query=trajectory.query,
        trajectory_dataset=trajectory.dataset,
        trajectory_id=trajectory.id,
        attribution=None if outcome.is_success else attribute_failure(trajectory, actions),
        is_success=outcome.is_success,
        signal=outcome.signal,
        model=MODEL,
        used_bullet_ids=trajectory.used_bullet_ids,
        calls=observe_calls(actions),
        task_id=trajectory.task_id,
    )


def attribute_failure(trajectory: Trajectory, actions: Sequence[ToolUse]) -> Attribution | None:
    """Return the most probable steps at which a failed trajectory went wrong, None without messages of agents."""
    ranked = rank_candidates(trajectory.transcript, actions)[:MAX_CANDIDATES]
    return write_attribution(ranked, load_wording(detect_language(trajectory))) if ranked else None


def write_insights(findings: Iterator[TrajectoryFinding], wording: LanguageTexts) -> tuple[Insight, ...]:
    """Return the lessons of `findings`, without duplicate key insights, at most `MAX_INSIGHTS`."""
    lessons: dict[str, Insight] = {}
    for finding in findings:
        lesson = write_lesson(finding, wording)
        lessons.setdefault(lesson.key_insight, lesson)
        if len(lessons) == MAX_INSIGHTS:
            break
    return tuple(lessons.values())


def _find_errors(
    request: ReflectionRequest, actions: Sequence[ToolUse], outcome: Outcome
) -> Iterator[TrajectoryFinding]:
    yield from find_tool_errors(actions, outcome)
    yield from find_repeated_calls(actions, outcome)
    if not outcome.is_success:
        yield from find_contradictions(actions)
    yield from find_answer_errors(request.trajectory, actions, outcome)
    yield from _find_contrasts(request, actions, outcome)


def _find_contrasts(
    request: ReflectionRequest, actions: Sequence[ToolUse], outcome: Outcome
) -> Iterator[TrajectoryFinding]:
    """Yield one finding: the contrast with the first sibling that had the other outcome."""
    for sibling in request.siblings:
        if determine_outcome(sibling, "", "").is_success == outcome.is_success:
            continue
        others = extract_actions(sibling.transcript)
        failed, worked = (others, actions) if outcome.is_success else (actions, others)
        found = find_contrast(request.trajectory.query, failed, worked, reflects_failed=not outcome.is_success)
        if found is not None:
            yield found
            return
