"""The operations that a curating model replies with, and the proposals that they become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from services.curator.domain.curation import DeltaContextItem, DeltaType, Lesson, Proposal, Reflection
from services.curator.domain.merge import join_sources
from services.curator.domain.playbook import DEFAULT_SECTION, Bullet, BulletTarget, Source
from services.curator.domain.review import PendingChange

MAX_OPERATIONS = 400

NOT_SHOWN = "the model was not shown this bullet and cannot edit it"
NO_LESSON = "the reply names lesson {number}, and there are {count}"
SKIPPED = "skipped by the curator: {reasoning}"
UNDECIDED = "the reply of the model decides nothing about this lesson"
WAITING_CANNOT_BE_EDITED = "a lesson that waits can be confirmed, not edited"


class Confirm(BaseModel):
    """A bullet, or a lesson that waits, says it already."""

    reasoning: str
    lesson: int
    op: Literal["CONFIRM"]
    id: str


class Rewrite(BaseModel):
    """A bullet gets another text."""

    reasoning: str
    lesson: int
    op: Literal["REWRITE"]
    id: str
    content: str


class Merge(BaseModel):
    """Several bullets become one."""

    reasoning: str
    lesson: int
    op: Literal["MERGE"]
    ids: list[str]
    into: str
    content: str


class Add(BaseModel):
    """A new bullet."""

    reasoning: str
    lesson: int
    op: Literal["ADD"]
    section: str
    content: str


class Retire(BaseModel):
    """A bullet is removed."""

    reasoning: str
    lesson: int
    op: Literal["RETIRE"]
    id: str


class Skip(BaseModel):
    """The lesson is not worth a bullet."""

    reasoning: str
    lesson: int
    op: Literal["SKIP"]


ModelOperation = Annotated[Confirm | Rewrite | Merge | Add | Retire | Skip, Field(discriminator="op")]


class CuratorReply(BaseModel):
    """The reply to the built-in prompt."""

    operations: list[ModelOperation] = Field(max_length=MAX_OPERATIONS)


class OwnDelta(DeltaContextItem):
    """One edit in the reply to a template of a user; `lesson` is the number of its lesson, if the template asks."""

    lesson: int | None = None


class DeltasReply(BaseModel):
    """The reply to a template of a user (C-55)."""

    deltas: list[OwnDelta]


@dataclass(frozen=True, slots=True)
class ShownItems:
    """The data that the model was shown: the reflection, bullets by id, and waiting lessons by their short ids."""

    reflection: Reflection
    bullets: Mapping[str, Bullet]
    waiting: Mapping[str, PendingChange]


def build_proposals(reply: CuratorReply, shown: ShownItems) -> tuple[Proposal, ...]:
    """Return the proposals of the operations, and a declined one for each lesson without an operation.

    Each proposal has the steps of its own lesson as a source. Ids that the model was not shown are declined.
    """
    proposals = [proposal for operation in reply.operations for proposal in _build_proposals(operation, shown)]
    decided = {operation.lesson for operation in reply.operations}
    for number, lesson in enumerate(shown.reflection.insights, 1):
        if number not in decided:
            proposals.append(_decline(lesson.key_insight, UNDECIDED))
    return tuple(proposals)


def build_own_proposals(reply: DeltasReply, reflection: Reflection) -> tuple[Proposal, ...]:
    """Return the proposals of the deltas that a template of the user asks for."""
    proposals = []
    for item in reply.deltas:
        lesson = _find_lesson(item.lesson, reflection) if item.lesson is not None else None
        lessons = reflection.insights if lesson is None else (lesson,)
        delta = DeltaContextItem(**item.model_dump(exclude={"lesson"}))
        target = _build_target(lesson) if lesson is not None and delta.type == "ADD" else None
        proposals.append(Proposal(delta, _build_sources(lessons, reflection), target=target))
    return tuple(proposals)


def _build_proposals(operation: ModelOperation, shown: ShownItems) -> Iterator[Proposal]:
    """Yield the proposals of one operation: one, or for MERGE an update and the removals."""
    reflection = shown.reflection
    lesson = _find_lesson(operation.lesson, reflection)
    if lesson is None:
        yield _decline("", NO_LESSON.format(number=operation.lesson, count=len(reflection.insights)))
        return
    sources = _build_sources((lesson,), reflection)
    match operation:
        case Skip():
            yield _decline(lesson.key_insight, SKIPPED.format(reasoning=operation.reasoning))
        case Add():
            section = operation.section.strip() or DEFAULT_SECTION
            delta = _build_delta("ADD", operation, content=operation.content, section=section)
            yield Proposal(delta, sources, target=_build_target(lesson))
        case Confirm():
            yield _confirm(operation, lesson, sources, shown)
        case Rewrite():
            yield _edit("UPDATE", operation, operation.id, operation.content, sources, shown, lesson)
        case Retire():
            yield _edit("DELETE", operation, operation.id, "", sources, shown)
        case Merge():
            yield from _merge(operation, lesson, sources, shown)


def _confirm(operation: Confirm, lesson: Lesson, sources: tuple[Source, ...], shown: ShownItems) -> Proposal:
    confirmed = _clean_id(operation.id)
    change = shown.waiting.get(confirmed)
    if change is not None:
        first = change.proposal
        delta = _build_delta("ADD", operation, content=first.delta.content, section=first.delta.section)
        target = first.target or _build_target(lesson)
        return Proposal(delta, join_sources(first.sources, sources), settles=change.id, target=target)
    bullet = shown.bullets.get(confirmed)
    if bullet is None:
        return _decline(lesson.key_insight, NOT_SHOWN)
    delta = _build_delta("ADD", operation, content=lesson.key_insight, section=bullet.section)
    return Proposal(delta, sources, confirmed_id=bullet.id, target=_build_target(lesson))


def _merge(operation: Merge, lesson: Lesson, sources: tuple[Source, ...], shown: ShownItems) -> Iterator[Proposal]:
    kept_id = _clean_id(operation.into)
    others = [bullet_id for bullet_id in dict.fromkeys(map(_clean_id, operation.ids)) if bullet_id != kept_id]
    if kept_id not in shown.bullets or any(bullet_id not in shown.bullets for bullet_id in others):
        yield _decline(operation.content, NOT_SHOWN)
        return
    for bullet_id in others:
        sources = join_sources(sources, shown.bullets[bullet_id].sources)
    yield _edit("UPDATE", operation, kept_id, operation.content, sources, shown, lesson)
    for bullet_id in others:
        yield _edit("DELETE", operation, bullet_id, "", sources, shown)


def _edit(
    kind: DeltaType,
    operation: ModelOperation,
    named: str,
    content: str,
    sources: tuple[Source, ...],
    shown: ShownItems,
    lesson: Lesson | None = None,
) -> Proposal:
    """Return the edit of a bullet. A bullet without a target gets that of the lesson; another one is kept."""
    bullet_id = _clean_id(named)
    bullet = shown.bullets.get(bullet_id)
    section = bullet.section if bullet is not None else ""
    delta = _build_delta(kind, operation, content=content, section=section, bullet_id=bullet_id)
    if bullet is None:
        reason = WAITING_CANNOT_BE_EDITED if bullet_id in shown.waiting else NOT_SHOWN
        return Proposal(delta, decline_reason=reason)
    target = _build_target(lesson) if lesson is not None and bullet.target is None else None
    return Proposal(delta, sources, target=target)


def _build_target(lesson: Lesson) -> BulletTarget | None:
    return BulletTarget(expression=lesson.target) if lesson.target else None


def _build_delta(
    kind: DeltaType, operation: ModelOperation, *, content: str, section: str, bullet_id: str | None = None
) -> DeltaContextItem:
    return DeltaContextItem(
        type=kind, section=section, bullet_id=bullet_id, content=content.strip(), reasoning=operation.reasoning
    )


def _decline(content: str, reason: str) -> Proposal:
    return Proposal(DeltaContextItem(type="ADD", section="", content=content, reasoning=""), decline_reason=reason)


def _find_lesson(number: int, reflection: Reflection) -> Lesson | None:
    return reflection.insights[number - 1] if 0 < number <= len(reflection.insights) else None


def _build_sources(lessons: Sequence[Lesson], reflection: Reflection) -> tuple[Source, ...]:
    if not reflection.trajectory_id:
        return ()
    steps = tuple(sorted({step for lesson in lessons for step in lesson.steps}))
    return (Source(trajectory=reflection.trajectory_id, steps=steps),)


def _clean_id(named: str) -> str:
    return named.strip().strip("[]")
