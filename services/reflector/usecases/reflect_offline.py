"""Reflects on a run by deterministic rules, without any model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from chassis.logging import get_logger
from services.reflector.domain.action_rules import error_findings, repeat_findings
from services.reflector.domain.actions import Action, actions_of
from services.reflector.domain.answer_rules import answer_findings
from services.reflector.domain.attribution import most_blamed
from services.reflector.domain.contradictions import contradiction_findings
from services.reflector.domain.contrast import contrast
from services.reflector.domain.findings import Finding
from services.reflector.domain.language import Language, language_of
from services.reflector.domain.outcome import Outcome, outcome_of
from services.reflector.domain.reflection import Attribution, Insight, ReflectionResult
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Trajectory
from services.reflector.domain.votes import resolved, votes_on
from services.reflector.domain.wording import Wording, attribution, lesson
from services.reflector.domain.wording_en import ENGLISH
from services.reflector.domain.wording_ja import JAPANESE

MODEL = "offline"
MAX_INSIGHTS = 20

_WORDINGS: Mapping[Language, Wording] = {"en": ENGLISH, "ja": JAPANESE}
_log = get_logger(__name__)


class OfflineReflector:
    """Reflects by rules over the transcript; one pass is all they need, so it always reports one iteration."""

    async def run(self, request: ReflectionRequest) -> ReflectionResult:
        """The lessons, the votes and, for a failed run, the step to blame. The same request gives the same result."""
        return await asyncio.to_thread(reflection_of, request)


def reflection_of(request: ReflectionRequest) -> ReflectionResult:
    """What the rules make of `request`; time and memory are linear in the steps."""
    trajectory = request.trajectory
    actions = actions_of(trajectory.transcript)
    outcome = outcome_of(trajectory, request.ground_truth, request.test_report)
    wording = wording_for(trajectory)
    used, unknown = resolved(trajectory.used_bullet_ids, request.bullets)
    if unknown:
        _log.warning("used bullets are not in the playbook", bullets=len(unknown), first=unknown[0])
    return ReflectionResult(
        insights=insights_from(_findings(request, actions, outcome), wording),
        bullet_evaluations=tuple(votes_on(used, trajectory, actions, outcome)),
        trajectory_query=trajectory.query,
        trajectory_dataset=trajectory.dataset,
        trajectory_id=trajectory.id,
        attribution=None if outcome.succeeded else blame(trajectory, actions),
        succeeded=outcome.succeeded,
        signal=outcome.signal,
        model=MODEL,
        used_bullet_ids=trajectory.used_bullet_ids,
    )


def wording_for(trajectory: Trajectory) -> Wording:
    """The texts in the language of the run."""
    return _WORDINGS[language_of(trajectory)]


def blame(trajectory: Trajectory, actions: Sequence[Action]) -> Attribution | None:
    """The step at which a failed run went wrong, None if no agent of it said anything."""
    candidate = most_blamed(trajectory.transcript, actions)
    return attribution(candidate, wording_for(trajectory)) if candidate is not None else None


def insights_from(findings: Iterator[Finding], wording: Wording) -> tuple[Insight, ...]:
    """The lessons of `findings`, each key insight once, at most `MAX_INSIGHTS`."""
    lessons: dict[str, Insight] = {}
    for finding in findings:
        told = lesson(finding, wording)
        lessons.setdefault(told.key_insight, told)
        if len(lessons) == MAX_INSIGHTS:
            break
    return tuple(lessons.values())


def _findings(request: ReflectionRequest, actions: Sequence[Action], outcome: Outcome) -> Iterator[Finding]:
    yield from error_findings(actions, outcome)
    yield from repeat_findings(actions, outcome)
    if not outcome.succeeded:
        yield from contradiction_findings(actions)
    yield from answer_findings(request.trajectory, actions, outcome, request.ground_truth)
    yield from _contrasts(request, actions, outcome)


def _contrasts(request: ReflectionRequest, actions: Sequence[Action], outcome: Outcome) -> Iterator[Finding]:
    """One finding: this run beside the first sibling that ended the other way."""
    for sibling in request.siblings:
        if outcome_of(sibling, "", "").succeeded == outcome.succeeded:
            continue
        others = actions_of(sibling.transcript)
        failed, worked = (others, actions) if outcome.succeeded else (actions, others)
        found = contrast(request.trajectory.query, failed, worked, told_by_failed=not outcome.succeeded)
        if found is not None:
            yield found
            return
