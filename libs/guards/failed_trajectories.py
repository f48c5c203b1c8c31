"""A failed trajectory as a prompt for a model that writes targets from it."""

from __future__ import annotations

from collections.abc import Sequence

from chassis.json_texts import format_as_text
from libs.guards.guard_trajectory import GuardTrajectory, TrajectoryCall, TrajectoryMessage
from libs.guards.prompts import GUARD_TEXTS, GuardTexts
from libs.prompts.fences import PROCESS_KEY, fence
from libs.prompts.language import detect_language

MAX_TARGETS = 6
"""The targets that a model may write from one trajectory."""
MAX_TRAJECTORY_CHARS = 100_000
MAX_TOOLS = 60
_MIN_LINE_CHARS = 400


def describe_tools(trajectories: Sequence[GuardTrajectory], domain: str) -> str:
    """Return the tools of a domain with the names of their arguments, and no value of any trajectory."""
    arguments: dict[str, dict[str, None]] = {}
    for trajectory in trajectories:
        if trajectory.domain == domain:
            for call in trajectory.calls:
                arguments.setdefault(call.request.tool, {}).update(dict.fromkeys(call.request.args))
    listed = sorted(arguments.items())[:MAX_TOOLS]
    return "\n".join(f"- {tool}({', '.join(names)})" for tool, names in listed)


def build_messages(
    trajectory: GuardTrajectory, tools: str, chars: int = MAX_TRAJECTORY_CHARS, key: bytes = PROCESS_KEY
) -> list[tuple[str, str]]:
    """Return the system message, which is the same for all trajectories of a language, and that with the trajectory.

    The trajectory takes about `chars` characters. The message has its steps and the fact that it failed, nothing else
    about its task.
    """
    events = trajectory.events
    language = detect_language(*(event.text for event in events if isinstance(event, TrajectoryMessage)))
    texts = GUARD_TEXTS[language]
    system = texts.failures.strip().format(vocabulary=texts.vocabulary, most=MAX_TARGETS, language=texts.language)
    lines = [_describe_event(event, texts) for event in events]
    if sum(map(len, lines)) > chars:
        longest = max(_MIN_LINE_CHARS, chars // max(1, len(lines)))
        lines = [_shorten(line, longest, texts) for line in lines]
    run = _shorten("\n".join(lines), chars, texts)
    blocks = [("tools", tools), ("outcome", texts.outcome), ("run", run)]
    return [("system", system), ("human", "\n\n".join(fence(tag, text, key) for tag, text in blocks))]


def _describe_event(event: TrajectoryMessage | TrajectoryCall, texts: GuardTexts) -> str:
    if isinstance(event, TrajectoryMessage):
        return f"[{event.step}] {event.role}: {event.text}"
    call = texts.call.format(text=f"{event.request.tool}({format_as_text(event.request.args)})")
    outcome = (
        texts.error.format(text=event.error) if event.error else texts.result.format(text=format_as_text(event.result))
    )
    return f"[{event.step}] {call}\n    {outcome}"


def _shorten(text: str, chars: int, texts: GuardTexts) -> str:
    if len(text) <= chars:
        return text
    half = chars // 2
    return f"{text[:half]}\n{texts.cut.format(count=len(text) - 2 * half)}\n{text[-half:]}"
