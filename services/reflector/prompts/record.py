"""The record of a trajectory for a prompt: each part within its share of the characters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from libs.prompts.fences import fence
from libs.prompts.outcomes import build_test_report
from libs.trajectories.actions import ToolUse
from libs.trajectories.excerpts import shorten_middle
from services.reflector.domain.language import detect_language
from services.reflector.domain.outcome import determine_outcome
from services.reflector.domain.reduction import Transcript, format_ranges, format_tagged_step, reduce_transcript
from services.reflector.domain.reflection import Insight, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.sibling_differences import find_first_difference
from services.reflector.domain.trajectory import Trajectory
from services.reflector.domain.votes import find_cited_ids, resolve_bullets
from services.reflector.prompts.texts import ReflectorTexts

_PLAYBOOK_SHARE = 0.2
_SIBLINGS_SHARE = 0.2
_TEXT_SHARE = 0.08
"""The shares of the playbook, of all siblings, and of each other text; the transcript gets at least half."""
MAX_SIBLINGS = 3
MAX_TOOLS = 100
_MAX_ARGUMENTS = 20


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """The parts of a prompt about one trajectory, as texts in the language of the prompt.

    `served` are the ids of bullets that the agent was given and did not cite.
    """

    query: str
    answer: str
    outcome: str
    error_message: str
    ground_truth: str
    test_report: str
    transcript: Transcript
    thoughts: str
    siblings: tuple[str, ...]
    tools: str
    playbook: tuple[UsedBullet, ...]
    cited: tuple[str, ...]
    served: tuple[str, ...]


def build_record(
    request: ReflectionRequest, actions: Sequence[ToolUse], texts: ReflectorTexts, chars: int
) -> PromptRecord:
    """Return the record of a trajectory in about `chars` characters."""
    trajectory = request.trajectory
    text_chars = max(200, int(chars * _TEXT_SHARE))

    def shorten(text: str) -> str:
        if len(text) <= text_chars:
            return text
        half = text_chars // 2
        return f"{text[:half]}\n{texts.cut.format(count=len(text) - 2 * half)}\n{text[-half:]}"

    report = request.test_report
    if not report.strip() and request.ground_truth.strip():
        language = detect_language(trajectory)
        report = build_test_report(trajectory.generated_answer, request.ground_truth, language)
    used_bullets, _ = resolve_bullets([*trajectory.used_bullet_ids, *trajectory.cited_bullet_ids], request.bullets)
    cited_ids = find_cited_ids(trajectory, used_bullets)
    siblings = _describe_siblings(request, texts, int(chars * _SIBLINGS_SHARE))
    playbook = _select_bullets(request.bullets, {bullet.id for bullet in used_bullets}, int(chars * _PLAYBOOK_SHARE))
    thoughts = _select_thoughts(trajectory)
    fixed = sum(map(len, siblings)) + sum(len(bullet.content) for bullet in playbook)
    return PromptRecord(
        query=shorten(trajectory.query),
        answer=shorten(trajectory.generated_answer),
        outcome=_describe_outcome(trajectory, request.ground_truth, request.test_report, texts),
        error_message=shorten(trajectory.error_message or ""),
        ground_truth=shorten(request.ground_truth),
        test_report=shorten(report),
        transcript=reduce_transcript(trajectory, actions, max(chars // 2, chars - fixed), format_tagged_step),
        thoughts=shorten(thoughts),
        siblings=tuple(siblings),
        tools=_describe_tools(actions, texts),
        playbook=tuple(playbook),
        cited=tuple(bullet.id for bullet in used_bullets if bullet.id in cited_ids),
        served=tuple(bullet.id for bullet in used_bullets if bullet.id not in cited_ids),
    )


def build_blocks(
    request: ReflectionRequest, record: PromptRecord, previous: Sequence[Insight], texts: ReflectorTexts, key: bytes
) -> list[str]:
    """Return the parts of the user message between tags, those that vary least first."""
    outcome = [record.outcome]
    if record.error_message:
        outcome.append(texts.error_message.format(message=record.error_message))
    is_shown = bool(record.answer.strip()) and record.answer.strip() in record.transcript.text
    before = "\n".join(f"{number}. {insight.key_insight}" for number, insight in enumerate(previous, 1))
    blocks = [
        ("playbook", "\n".join(map(_format_bullet, record.playbook)) or texts.no_bullets),
        ("tools", record.tools or texts.no_tools),
        ("task", record.query),
        ("outcome", "\n".join(outcome)),
        ("ground_truth", record.ground_truth),
        ("test_report", record.test_report),
        ("siblings", "\n\n".join(record.siblings)),
        ("thoughts", f"{texts.notes}\n{record.thoughts}" if record.thoughts else ""),
        ("run", "\n".join([record.transcript.text, *describe_reduction(record.transcript, texts)])),
        ("answer", "" if is_shown else record.answer),
        ("cited", _format_ids(record.cited)),
        ("served", _format_ids(record.served)),
        ("before", before),
    ]
    return [fence(tag, text, key) for tag, text in blocks if text.strip()]


def describe_reduction(transcript: Transcript, texts: ReflectorTexts) -> list[str]:
    """Return notes on the steps that are shortened or omitted."""
    notes = []
    if transcript.shortened:
        notes.append(texts.shortened.format(steps=format_ranges(transcript.shortened)))
    if transcript.omitted:
        notes.append(texts.omitted.format(steps=format_ranges(transcript.omitted), count=len(transcript.omitted)))
    return notes


def _format_bullet(bullet: UsedBullet) -> str:
    return f"[{bullet.id}] {bullet.content} (helpful {bullet.helpful}, harmful {bullet.harmful})"


def _format_ids(ids: Iterable[str]) -> str:
    return " ".join(f"[{bullet_id}]" for bullet_id in ids)


def _describe_outcome(trajectory: Trajectory, ground_truth: str, test_report: str, texts: ReflectorTexts) -> str:
    outcome = determine_outcome(trajectory, ground_truth, test_report)
    source = texts.sources[outcome.signal]
    if outcome.signal == "reward" and trajectory.reward is not None:
        source = f"{source} ({trajectory.reward:g})"
    return texts.outcome.format(status=texts.success if outcome.is_success else texts.failure, source=source)


def _select_bullets(bullets: Sequence[UsedBullet], known_ids: set[str], chars: int) -> list[UsedBullet]:
    """Return the bullets that fit, in order; those that the agent used come first."""
    selected: set[str] = set()
    for bullet in sorted(bullets, key=lambda bullet: bullet.id not in known_ids):
        if len(bullet.content) <= chars:
            selected.add(bullet.id)
            chars -= len(bullet.content)
    return [bullet for bullet in bullets if bullet.id in selected]


def _select_thoughts(trajectory: Trajectory) -> str:
    """Return the reasoning steps that no recorded step contains; they are the transcript if no step was recorded."""
    if not trajectory.steps:
        return ""
    contents = {step.content.strip() for step in trajectory.steps}
    return "\n".join(thought for thought in trajectory.reasoning_steps if thought.strip() not in contents)


def _describe_tools(actions: Sequence[ToolUse], texts: ReflectorTexts) -> str:
    """Return the called tools with the number of their calls and the names of their arguments."""
    counts: dict[str, int] = {}
    arguments: dict[str, dict[str, None]] = {}
    for action in actions:
        counts[action.tool] = counts.get(action.tool, 0) + 1
        arguments.setdefault(action.tool, {}).update(dict.fromkeys(_list_arguments(action.arguments)))
    return "\n".join(
        texts.tool.format(name=tool, count=count, arguments=", ".join(list(arguments[tool])[:_MAX_ARGUMENTS]) or "-")
        for tool, count in list(counts.items())[:MAX_TOOLS]
    )


def _list_arguments(arguments: str) -> list[str]:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return []
    return [str(name) for name in value] if isinstance(value, dict) else []


def _describe_siblings(request: ReflectionRequest, texts: ReflectorTexts, chars: int) -> list[str]:
    """Return other trajectories of the task from the step where they differ, those with the other outcome first."""
    trajectory = request.trajectory
    own = determine_outcome(trajectory, request.ground_truth, request.test_report)
    # The ground truth is that of the task; the test report is that of this trajectory.
    outcomes = [(sibling, determine_outcome(sibling, request.ground_truth, "")) for sibling in request.siblings]
    outcomes.sort(key=lambda pair: pair[1].is_success == own.is_success)
    described = []
    for sibling, outcome in outcomes[:MAX_SIBLINGS]:
        start = find_first_difference(trajectory.transcript, sibling.transcript)
        has_common_steps = any(step.role in ("assistant", "tool") for step in sibling.transcript[:start])
        head = (texts.sibling if has_common_steps else texts.sibling_from_start).format(
            status=texts.success if outcome.is_success else texts.failure,
            source=texts.sources[outcome.signal],
            number=start + sibling.first_step_number - 1,
        )
        lines = [format_tagged_step(step, sibling) for step in sibling.transcript[start:]]
        described.append(f"{head}\n{_shorten_lines(lines, chars // min(len(outcomes), MAX_SIBLINGS))}")
    return described


def _shorten_lines(lines: Sequence[str], chars: int) -> str:
    """Return the lines in about `chars` characters: the longest are shortened first, then the middle is omitted."""
    if sum(map(len, lines)) > chars:
        longest = max(200, chars // max(1, min(len(lines), 20)))
        lines = [shorten_middle(line, longest // 2) for line in lines]
    return shorten_middle("\n".join(lines), chars // 2)
