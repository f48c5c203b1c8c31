"""Offline rules over how a failed run reached its answer: refused, claimed against the evidence, or without any."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from services.reflector.domain.actions import Action
from services.reflector.domain.excerpts import ends, excerpt
from services.reflector.domain.findings import Finding
from services.reflector.domain.outcome import Outcome, is_correct
from services.reflector.domain.repairs import repairs_of
from services.reflector.domain.tool_errors import normalised
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
_TRUTH_CHARS = 300
_LAST_WORDS = 3


def answer_findings(
    trajectory: Trajectory, actions: Sequence[Action], outcome: Outcome, ground_truth: str
) -> Iterator[Finding]:
    """What is wrong with how a failed run ended; nothing for a run that succeeded."""
    if outcome.succeeded:
        return
    yield from _run_error(trajectory, actions)
    last = _last_words(trajectory.transcript)
    contradicted = list(_contradicted(last, actions))
    yield from contradicted
    yield from _refusal(last)
    if not contradicted:
        yield from _unverified(trajectory, actions, last)
    if outcome.signal == "ground_truth":
        yield from _wrong_answer(trajectory, ground_truth, last)


def _last_words(steps: Sequence[Step]) -> list[Step]:
    """The last things the agents said, newest first."""
    spoken = (step for step in reversed(steps) if step.role == "assistant" and step.content.strip())
    return [step for step, _ in zip(spoken, range(_LAST_WORDS), strict=False)]


def _run_error(trajectory: Trajectory, actions: Sequence[Action]) -> Iterator[Finding]:
    """What the run broke off with, unless it is the failure of a call, which is told with the call."""
    message = excerpt(trajectory.error_message or "", 200)
    if message and not any(action.error is not None and action.message in message for action in actions):
        steps = (trajectory.transcript[-1].index,) if trajectory.transcript else ()
        yield Finding("run_error", steps, {"message": message, "kind": normalised(message)})


def _refusal(last: Sequence[Step]) -> Iterator[Finding]:
    for step in last[:2]:
        text = ends(step.content, _READ_CHARS)
        found = _REFUSAL.search(text)
        if found:
            quote = excerpt(text[max(0, found.start() - 40) :], 120)
            facts = {"agent": step.speaker, "step": str(step.index), "quote": quote}
            yield Finding("refusal", (step.index,), facts)
            return


def _contradicted(last: Sequence[Step], actions: Sequence[Action]) -> Iterator[Finding]:
    repaired = repairs_of(actions)
    failed = next((place for place in range(len(actions) - 1, -1, -1) if actions[place].error is not None), None)
    if failed is None or failed in repaired:
        return
    action = actions[failed]
    for step in last:
        if step.index > action.last_step and _CLAIM.search(ends(step.content, _READ_CHARS)):
            facts = {
                "agent": step.speaker,
                "step": str(step.index),
                "tool": action.operation,
                "failed_step": str(action.last_step),
                "message": action.message,
                "quote": excerpt(step.content, 120),
            }
            yield Finding("contradicted_claim", (action.last_step, step.index), facts)
            return


def _unverified(trajectory: Trajectory, actions: Sequence[Action], last: Sequence[Step]) -> Iterator[Finding]:
    answer = trajectory.generated_answer.strip()
    if not answer or not last:
        return
    facts = {"agent": last[0].speaker, "step": str(last[0].index), "quote": excerpt(answer, 120)}
    if not actions:
        yield Finding("unverified_answer", (last[0].index,), {**facts, "values": ""})
        return
    if len(answer) > _SHORT_ANSWER_CHARS:
        return
    known = "\n".join([trajectory.query, *(ends(action.output, _EVIDENCE_CHARS) for action in actions)])
    seen = {number.replace(",", "") for number in _NUMBER.findall(known)}
    unseen = [number for number in _NUMBER.findall(answer) if number.replace(",", "") not in seen and len(number) > 1]
    if unseen:
        yield Finding("unverified_answer", (last[0].index,), {**facts, "values": ", ".join(unseen[:3])})


def _wrong_answer(trajectory: Trajectory, ground_truth: str, last: Sequence[Step]) -> Iterator[Finding]:
    answer = trajectory.generated_answer.strip()
    if answer and ground_truth.strip() and not is_correct(answer, ground_truth):
        facts = {
            "query": excerpt(trajectory.query, _TRUTH_CHARS),
            "answer": excerpt(answer, _TRUTH_CHARS),
            "truth": excerpt(ground_truth.strip(), _TRUTH_CHARS),
            "step": str(last[0].index) if last else "",
        }
        yield Finding("wrong_answer", (last[0].index,) if last else (), facts)
