"""Votes on bullets by rule: by the citations of the trajectory, its actions and its outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from libs.trajectories.actions import ToolUse
from services.reflector.domain.outcome import Outcome
from services.reflector.domain.reflection import BulletEvaluation, Signal, Tag, UsedBullet
from services.reflector.domain.trajectory import Trajectory

_WORD = re.compile(r"[^\W_]{2,}")
_WARNED_SHARE = 0.6
"""The share of the words of an error's kind that a bullet must contain to count as a warning of it."""
_READ_CHARS = 20_000
_READ_STEPS = 200

_SAYS: dict[Signal, str] = {
    "reward": "the environment's reward",
    "test_report": "the test report",
    "ground_truth": "the known right answer",
    "self_report": "the agent's self-report",
}
_UNPROVEN = "No other evidence supports this, so it gives no vote."


@dataclass(frozen=True, slots=True)
class _DistinctActions:
    """The first failure of each kind, and the operations that worked: a trajectory may repeat each a thousand times."""

    failures: tuple[ToolUse, ...]
    operations: tuple[str, ...]


def resolve_bullets(
    used_bullet_ids: Sequence[str], bullets: Sequence[UsedBullet]
) -> tuple[list[UsedBullet], list[str]]:
    """Return the used bullets in the order of their ids, without duplicates, and the ids without a bullet (R-09)."""
    bullets_by_id = {bullet.id: bullet for bullet in bullets}
    ids = list(dict.fromkeys(used_bullet_ids))
    return [bullets_by_id[id_] for id_ in ids if id_ in bullets_by_id], [id_ for id_ in ids if id_ not in bullets_by_id]


def vote_on_bullets(
    bullets: Sequence[UsedBullet], trajectory: Trajectory, actions: Sequence[ToolUse], outcome: Outcome
) -> Iterator[BulletEvaluation]:
    """Yield one vote for each of `bullets`, in order; neutral without evidence.

    All votes of a trajectory are neutral if nothing but its own status proves its outcome: otherwise an agent could
    manipulate the votes on the bullets it was served.
    """
    cited = find_cited_ids(trajectory, bullets)
    distinct = _select_distinct(actions)
    for bullet in bullets:
        tag, reason = _choose_tag(bullet, bullet.id in cited, trajectory, distinct, outcome)
        if tag != "neutral" and not outcome.is_proven:
            tag, reason = "neutral", f"{reason} {_UNPROVEN}"
        yield BulletEvaluation(bullet_id=bullet.id, tag=tag, reason=reason)


def find_cited_ids(trajectory: Trajectory, bullets: Sequence[UsedBullet]) -> frozenset[str]:
    """Return the ids that the trajectory lists as cited or that appear as `[<id>]` in messages of agents."""
    messages = [step.content[:_READ_CHARS] for step in trajectory.transcript[-_READ_STEPS:] if step.role == "assistant"]
    text = "\n".join([trajectory.generated_answer, *messages])
    return frozenset(trajectory.cited_bullet_ids) | {bullet.id for bullet in bullets if f"[{bullet.id}]" in text}


def _select_distinct(actions: Sequence[ToolUse]) -> _DistinctActions:
    failures: dict[str, ToolUse] = {}
    for action in actions:
        if action.error is not None:
            failures.setdefault(action.error_kind, action)
    operations = dict.fromkeys(action.operation for action in actions if action.is_success)
    return _DistinctActions(tuple(failures.values()), tuple(operations))


def _choose_tag(
    bullet: UsedBullet, cited: bool, trajectory: Trajectory, actions: _DistinctActions, outcome: Outcome
) -> tuple[Tag, str]:
    error = next((action for action in actions.failures if _warns_of(bullet, action)), None)
    if outcome.is_success:
        if cited:
            return "helpful", f"It was cited, and {_SAYS[outcome.signal]} says that the task succeeded."
        heeded = next((operation for operation in actions.operations if f"`{operation}`" in bullet.content), None)
        if heeded is not None and error is None:
            return (
                "helpful",
                f"The agent called {heeded}, the subject of this, without the failure that it warns of, and "
                f"{_SAYS[outcome.signal]} says that it succeeded.",
            )
        return "neutral", "The task succeeded, but nothing shows that the agent used this."
    if error is not None:
        return (
            "neutral",
            f"The task failed by the error of this warning (step {error.last_step}), so it was not followed.",
        )
    if trajectory.error_message:
        return "neutral", "The task was interrupted by an error, which is no evidence about this."
    if cited:
        return "harmful", f"It was cited, and {_SAYS[outcome.signal]} says that the task failed."
    return "neutral", "The task failed, but nothing shows that the agent used this."


def _warns_of(bullet: UsedBullet, action: ToolUse) -> bool:
    if action.error is None or action.operation.lower() not in bullet.content.lower():
        return False
    words = {word.lower() for word in _WORD.findall(action.error.kind)}
    bullet_words = {word.lower() for word in _WORD.findall(bullet.content)}
    return bool(words) and len(words & bullet_words) >= _WARNED_SHARE * len(words)
