"""Votes on bullets by rule: what the run cited or heeded, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from services.reflector.domain.actions import Action
from services.reflector.domain.outcome import Outcome
from services.reflector.domain.reflection import Bullet, BulletEvaluation, Signal, Tag
from services.reflector.domain.trajectory import Trajectory

_WORD = re.compile(r"[^\W_]{2,}")
_WARNED_SHARE = 0.6
"""Share of the words of an error's kind that a bullet must hold to count as warning of it."""
_READ_CHARS = 20_000
_READ_STEPS = 200

_SAYS: dict[Signal, str] = {
    "reward": "the environment's reward",
    "test_report": "the test report",
    "ground_truth": "the known right answer",
    "self_report": "the run's own word",
}
_UNPROVEN = "Nothing else says so, and that is too little for a vote."


def resolved(used_bullet_ids: Sequence[str], bullets: Sequence[Bullet]) -> tuple[list[Bullet], list[str]]:
    """The used bullets in the order of their ids, each once, and the ids that no bullet has (R-09)."""
    known = {bullet.id: bullet for bullet in bullets}
    wanted = list(dict.fromkeys(used_bullet_ids))
    return [known[id_] for id_ in wanted if id_ in known], [id_ for id_ in wanted if id_ not in known]


def votes_on(
    bullets: Sequence[Bullet], trajectory: Trajectory, actions: Sequence[Action], outcome: Outcome
) -> Iterator[BulletEvaluation]:
    """One vote for each of `bullets`, in order. A bullet that nothing in the run speaks for or against is neutral.

    So is every bullet of a run that alone says how it ended: else an agent could praise or damn what it was served.
    """
    cited = cited_in(trajectory, bullets)
    for bullet in bullets:
        tag, reason = _vote(bullet, bullet.id in cited, trajectory, actions, outcome)
        if tag != "neutral" and not outcome.proven:
            tag, reason = "neutral", f"{reason} {_UNPROVEN}"
        yield BulletEvaluation(bullet_id=bullet.id, tag=tag, reason=reason)


def cited_in(trajectory: Trajectory, bullets: Sequence[Bullet]) -> frozenset[str]:
    """The ids the run says it cited, and those that stand as `[<id>]` in its answer or in what its agents said."""
    said = [step.content[:_READ_CHARS] for step in trajectory.transcript[-_READ_STEPS:] if step.role == "assistant"]
    text = "\n".join([trajectory.generated_answer, *said])
    return frozenset(trajectory.cited_bullet_ids) | {bullet.id for bullet in bullets if f"[{bullet.id}]" in text}


def _vote(
    bullet: Bullet, cited: bool, trajectory: Trajectory, actions: Sequence[Action], outcome: Outcome
) -> tuple[Tag, str]:
    error = next((action for action in actions if action.error is not None and _warns_of(bullet, action)), None)
    if outcome.succeeded:
        if cited:
            return "helpful", f"It was cited, and {_SAYS[outcome.signal]} says that the run succeeded."
        heeded = next(
            (action for action in actions if action.succeeded and f"`{action.operation}`" in bullet.content), None
        )
        if heeded is not None and error is None:
            return (
                "helpful",
                f"The run called {heeded.operation}, which this is about, without the failure it warns of, and "
                f"{_SAYS[outcome.signal]} says that it succeeded.",
            )
        return "neutral", "The run succeeded, but nothing shows that it used this."
    if error is not None:
        return "neutral", f"The run failed by what this warns of (step {error.last_step}), so it was not followed."
    if trajectory.error_message:
        return "neutral", "The run broke off with an error, which says nothing about this."
    if cited:
        return "harmful", f"It was cited, and {_SAYS[outcome.signal]} says that the run failed."
    return "neutral", "The run failed, but nothing shows that it used this."


def _warns_of(bullet: Bullet, action: Action) -> bool:
    if action.error is None or action.operation.lower() not in bullet.content.lower():
        return False
    words = {word.lower() for word in _WORD.findall(action.error.kind)}
    held = {word.lower() for word in _WORD.findall(bullet.content)}
    return bool(words) and len(words & held) >= _WARNED_SHARE * len(words)
