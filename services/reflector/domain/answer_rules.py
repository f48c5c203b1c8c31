"""Finds errors in how a failed trajectory reached its answer: refused, against the evidence, or without evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from libs.trajectories.actions import ToolUse
from libs.trajectories.excerpts import shorten_middle, shorten_text
from libs.trajectories.tool_errors import normalize_message
from services.reflector.domain.findings import TrajectoryFinding
from services.reflector.domain.outcome import Outcome
from services.reflector.domain.repairs import find_repairs
from services.reflector.domain.trajectory import Step, Trajectory

_REFUSAL = re.compile(
    r"\bI(?: am|'m) (?:unable|not able) to\b"
    r"|\b(?:I can(?:no|')t|unable to) (?:help|assist|do|proceed|provide|complete|fulfil|process)"
    r"|\btransfer(?:red|ring)? (?:you )?to an? human"
    r"|対応(?:でき|致し)(?:ません|かね)|お手伝いできません|できかねます|回答できません|お答えできません",
    re.I,
)
_CLAIM = re.compile(
    r"\bsuccessful(?:ly)?\b|\b(?:has|have) been (?:\w+ )?\w+ed\b|\bis (?:now )?(?:complete|done|fixed|updated)\b"
    r"|完了しました|成功しました|できました|済みです",
    re.I,
)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_READ_CHARS = 4_000
_SHORT_ANSWER_CHARS = 400
_EVIDENCE_CHARS = 20_000
_LAST_WORDS = 3


def find_answer_errors(
    trajectory: Trajectory, actions: Sequence[ToolUse], outcome: Outcome
) -> Iterator[TrajectoryFinding]:
    """Yield the errors in how a failed trajectory ended; nothing for a successful one."""
    if outcome.is_success:
        return
    yield from _find_final_error(trajectory, actions)
    last = _find_last_messages(trajectory.transcript)
    false_claims = list(_find_false_claim(last, actions))
    yield from false_claims
    yield from _find_refusal(last)
    if not false_claims:
        yield from _find_unverified_answer(trajectory, actions, last)


def _find_last_messages(steps: Sequence[Step]) -> list[Step]:
    """Return the last messages of the agents, newest first."""
    spoken = (step for step in reversed(steps) if step.role == "assistant" and step.content.strip())
    return [step for step, _ in zip(spoken, range(_LAST_WORDS), strict=False)]


def _find_final_error(trajectory: Trajectory, actions: Sequence[ToolUse]) -> Iterator[TrajectoryFinding]:
    """Yield the final error of the trajectory, unless a failed call has reported it."""
    message = shorten_text(trajectory.error_message or "", 200)
    if message and not any(action.error is not None and action.message in message for action in actions):
        steps = (trajectory.transcript[-1].index,) if trajectory.transcript else ()
        yield TrajectoryFinding("trajectory_error", steps, {"message": message, "kind": normalize_message(message)})


def _find_refusal(last: Sequence[Step]) -> Iterator[TrajectoryFinding]:
    for step in last[:2]:
        text = shorten_middle(step.content, _READ_CHARS)
        found = _REFUSAL.search(text)
        if found:
            quote = shorten_text(text[max(0, found.start() - 40) :], 120)
            facts = {"agent": step.speaker, "step": str(step.index), "quote": quote}
            yield TrajectoryFinding("refusal", (step.index,), facts)
            return


def _find_false_claim(last: Sequence[Step], actions: Sequence[ToolUse]) -> Iterator[TrajectoryFinding]:
    failures = [position for position, action in enumerate(actions) if action.error is not None]
    if not failures or failures[-1] in find_repairs(actions):
        return
    action = actions[failures[-1]]
    for step in last:
        if step.index > action.last_step and _CLAIM.search(shorten_middle(step.content, _READ_CHARS)):
            facts = {
                "agent": step.speaker,
                "step": str(step.index),
                "tool": action.operation,
                "failed_step": str(action.last_step),
                "message": action.message,
                "quote": shorten_text(step.content, 120),
            }
            yield TrajectoryFinding("contradicted_claim", (action.last_step, step.index), facts)
            return


def _find_unverified_answer(
    trajectory: Trajectory, actions: Sequence[ToolUse], last: Sequence[Step]
) -> Iterator[TrajectoryFinding]:
    answer = trajectory.generated_answer.strip()
    if not answer or not last:
        return
    facts = {"agent": last[0].speaker, "step": str(last[0].index), "quote": shorten_text(answer, 120)}
    if not actions:
        yield TrajectoryFinding("unverified_answer", (last[0].index,), {**facts, "values": ""})
        return
    if len(answer) > _SHORT_ANSWER_CHARS:
        return
    evidence = "\n".join([trajectory.query, *(shorten_middle(action.output, _EVIDENCE_CHARS) for action in actions)])
    found = {number.replace(",", "") for number in _NUMBER.findall(evidence)}
    missing = [number for number in _NUMBER.findall(answer) if number.replace(",", "") not in found and len(number) > 1]
    if missing:
        yield TrajectoryFinding("unverified_answer", (last[0].index,), {**facts, "values": ", ".join(missing[:3])})
