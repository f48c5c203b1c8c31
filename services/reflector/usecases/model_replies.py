"""The replies of a reflecting model, and their conversion to lessons, votes and attributions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from chassis.targets.errors import InvalidTarget
from chassis.targets.target import Target
from services.reflector.domain.anchoring import find_nearest_steps
from services.reflector.domain.reflection import Attribution, BlameCandidate, BulletEvaluation, Insight, Kind, Tag
from services.reflector.domain.trajectory import MAX_ID_CHARS, Trajectory
from services.reflector.prompts.record import PromptRecord

MAX_INSIGHTS = 200
MAX_TEXT_CHARS = 20_000
MAX_STEPS_NAMED = 1_000
MAX_DECISIVE_STEPS = 3
MAX_TAGS = 1_000
USER, ENVIRONMENT = "user", "environment"
NO_TAG = "The model's reply has no tag for it."
INVALID_TARGET = "the target of a lesson was left out: {problem}"


def _replace_null(empty: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: empty if value is None else value)


LessonText = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
StepNumbers = Annotated[list[int], _replace_null([]), Field(max_length=MAX_STEPS_NAMED)]


class DecisiveStepReply(BaseModel):
    """A step that may have decided the outcome; ``step`` is its number in the prompt."""

    step: int
    agent: Annotated[LessonText, _replace_null("")] = ""
    why: Annotated[LessonText, _replace_null("")] = ""


class LessonReply(BaseModel):
    """One lesson in a model's reply; ``evidence_steps`` are the numbers in the prompt."""

    evidence_steps: StepNumbers = []
    what_happened: LessonText
    cause: LessonText
    better: LessonText
    lesson: LessonText
    kind: Kind | None = None
    confirms: str | None = None
    contradicts: str | None = None
    target: str | None = None


class TagReply(BaseModel):
    """The vote on one bullet in a model's reply."""

    bullet_id: str
    why: Annotated[LessonText, _replace_null("")] = ""
    tag: Tag


class ReflectionReply(BaseModel):
    """The reply to the built-in prompt; one invalid lesson makes it unusable (R-30)."""

    analysis: Annotated[LessonText, _replace_null("")] = ""
    decisive_steps: Annotated[list[DecisiveStepReply], _replace_null([])] = []
    lessons: list[LessonReply] = Field(max_length=MAX_INSIGHTS)
    tags: Annotated[list[TagReply], _replace_null([]), Field(max_length=MAX_TAGS)] = []


class InsightReply(BaseModel):
    """One lesson in the reply to a template of a user; ``steps`` are the numbers in the prompt."""

    reasoning: LessonText
    error_identification: LessonText
    root_cause_analysis: LessonText
    correct_approach: LessonText
    key_insight: LessonText
    steps: StepNumbers = []


class InsightsReply(BaseModel):
    """The reply to a template of a user; one invalid lesson makes it unusable (R-30)."""

    insights: list[InsightReply] = Field(max_length=MAX_INSIGHTS)


class VerdictReply(BaseModel):
    """A vote in a model's reply; its ``bullet_id`` is ignored in favour of the requested bullet (R-17)."""

    bullet_id: str = ""
    tag: Tag
    reason: LessonText


def compute_step_numbers(trajectory: Trajectory) -> range:
    """Return the numbers of the trajectory's steps in the prompt."""
    first = trajectory.first_step_number
    return range(first, first + len(trajectory.transcript))


def find_unknown_steps(reply: ReflectionReply | InsightsReply, numbers: range) -> list[int]:
    """Return the steps that the reply names and the trajectory does not have."""
    named: set[int] = set()
    if isinstance(reply, ReflectionReply):
        named.update(decisive.step for decisive in reply.decisive_steps)
        named.update(number for lesson in reply.lessons for number in lesson.evidence_steps)
    else:
        named.update(number for insight in reply.insights for number in insight.steps)
    return sorted(number for number in named if number not in numbers)


def read_insights(
    reply: ReflectionReply | InsightsReply,
    trajectory: Trajectory,
    known_ids: set[str],
    report_problem: Callable[[str], None] = lambda problem: None,
) -> list[Insight]:
    """Return the lessons with step indices instead of step numbers. Steps that do not exist are dropped.

    A lesson without steps gets the step that it refers to, or the last step if it refers to none. Only `known_ids` can
    be confirmed or contradicted. A target that does not compile is left out and reported; its lesson is kept.
    """
    insights = list(_read_reply(reply, known_ids, report_problem))
    numbers = compute_step_numbers(trajectory)
    insights = [insight.model_copy(update={"steps": _index_steps(insight.steps, numbers)}) for insight in insights]
    silent = [insight for insight in insights if not insight.steps]
    texts = [
        f"{insight.error_identification}\n{insight.root_cause_analysis}\n{insight.reasoning}" for insight in silent
    ]
    steps = trajectory.transcript
    found = find_nearest_steps(texts, steps) if texts else []
    last = (steps[-1].index,) if steps else ()
    nearest = iter(last if index is None else (index,) for index in found)
    return [insight if insight.steps else insight.model_copy(update={"steps": next(nearest)}) for insight in insights]


def _read_reply(
    reply: ReflectionReply | InsightsReply, known_ids: set[str], report_problem: Callable[[str], None]
) -> Iterator[Insight]:
    if isinstance(reply, InsightsReply):
        for item in reply.insights:
            yield Insight(**item.model_dump(exclude={"steps"}), steps=tuple(item.steps))
        return
    for lesson in reply.lessons:
        if lesson.lesson.strip():
            yield Insight(
                reasoning=reply.analysis,
                error_identification=lesson.what_happened,
                root_cause_analysis=lesson.cause,
                correct_approach=lesson.better,
                key_insight=lesson.lesson.strip(),
                steps=tuple(lesson.evidence_steps),
                kind=lesson.kind,
                confirms=_clean_id(lesson.confirms, known_ids),
                contradicts=_clean_id(lesson.contradicts, known_ids),
                target=_check_target(lesson.target, report_problem),
            )


def _check_target(expression: str | None, report_problem: Callable[[str], None]) -> str:
    """Return the target of a lesson; empty for none and for one that does not compile, which is reported."""
    target = (expression or "").strip()
    if not target:
        return ""
    try:
        Target(target)
    except InvalidTarget as error:
        report_problem(INVALID_TARGET.format(problem=error.message))
        return ""
    return target


def _clean_id(bullet_id: str | None, known_ids: set[str]) -> str:
    """Return the id without brackets; empty for none and for one that the model was not shown."""
    bare = (bullet_id or "").strip().strip("[]")
    return bare if bare in known_ids else ""


def _index_steps(step_numbers: Iterable[int], numbers: range) -> tuple[int, ...]:
    return tuple(sorted({number - numbers.start for number in step_numbers if number in numbers}))


def read_attribution(reply: ReflectionReply, trajectory: Trajectory) -> Attribution | None:
    """Return the candidates for the decisive step, None if the reply names none."""
    numbers = compute_step_numbers(trajectory)
    candidates: dict[int, BlameCandidate] = {}
    for decisive in reply.decisive_steps:
        if decisive.step in numbers:
            index = decisive.step - numbers.start
            agent = _name_agent(decisive.agent, trajectory, index)
            candidates.setdefault(index, BlameCandidate(step=index, agent=agent, reason=decisive.why))
    if not candidates:
        return None
    first, *others = list(candidates.values())[:MAX_DECISIVE_STEPS]
    return Attribution(**first.model_dump(), alternatives=tuple(others))


def _name_agent(named: str, trajectory: Trajectory, index: int) -> str:
    """Return the agent that a reply names, if it speaks in the trajectory, else who speaks in the step."""
    name = named.strip()
    speakers = {step.speaker for step in trajectory.transcript if step.role == "assistant"}
    if name in speakers or name in (USER, ENVIRONMENT):
        return name
    step = trajectory.transcript[index]
    if step.role == "tool":
        return ENVIRONMENT
    return USER if step.role == "user" else step.speaker[:MAX_ID_CHARS]


def read_votes(reply: ReflectionReply, record: PromptRecord) -> list[BulletEvaluation]:
    """Return one vote for each cited bullet, and for each other served one that the reply tags."""
    tags = {_clean_id(tag.bullet_id, {*record.cited, *record.served}): tag for tag in reversed(reply.tags)}
    votes = []
    for bullet_id in (*record.cited, *record.served):
        tag = tags.get(bullet_id)
        if tag is not None:
            votes.append(BulletEvaluation(bullet_id=bullet_id, tag=tag.tag, reason=tag.why))
        elif bullet_id in record.cited:
            votes.append(BulletEvaluation(bullet_id=bullet_id, tag="neutral", reason=NO_TAG))
    return votes


def get_ids(record: PromptRecord) -> set[str]:
    """Return the ids of the bullets that the model is shown."""
    return {bullet.id for bullet in record.playbook}


def join_problems(problems: Sequence[str]) -> str:
    """Return the problems as one text, each once."""
    return "; ".join(dict.fromkeys(problems))
