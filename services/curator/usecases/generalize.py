"""Generalize: record the calls of a trajectory as evidence, and propose the lessons that it now supports."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from services.curator.domain.curation import DeltaContextItem, DeltaType, Proposal, Reflection
from services.curator.domain.evidence import Evidence, add_trajectory, list_operations
from services.curator.domain.general_lessons import EXAMPLES, GeneralLesson, derive_lessons
from services.curator.domain.log import StoredBullet
from services.curator.domain.playbook import Bullet
from services.curator.domain.similarity import Subject, find_subject
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.corroboration import hold_instruction
from services.curator.usecases.ports import DatasetTransaction

HOLDS_OVER_TASKS = "{tasks} trajectories of several tasks agree"
REPORTED = "a trajectory of one task shows what worked"
SHOWN = "a trajectory that passed shows the calls"
CONTRADICTED = "later trajectories contradict it"
REPLACED = "shorter examples of the operation replace it"
EXPLAINED = "a lesson of several tasks explains its error"
INLINE_OPERATIONS = 2
"""The records of so few operations take less time than a thread hand-over."""


@dataclass(frozen=True, slots=True)
class EvidenceUpdate:
    """The records of the operations of a trajectory: as read (`base`), and with the new calls (`records`)."""

    reflection: Reflection
    playbook: Snapshot
    base: Mapping[str, Evidence] = field(default_factory=dict)
    records: Mapping[str, Evidence] = field(default_factory=dict)
    proposals: tuple[Proposal, ...] = ()
    subjects: frozenset[Subject] = frozenset()
    """The subjects of the lessons that hold now; the lesson of one trajectory on such a subject adds nothing."""

    def store(self, dataset: DatasetTransaction, *, must_match: bool) -> bool:
        """Store the records; return False, unless `must_match` is False, if the newest records support other lessons.

        Without `must_match` the trajectory is added to the newest records; the next one leads to their lessons.
        """
        # Records change only with a revision.
        is_newest = dataset.revision == self.playbook.revision
        stored = self.base if is_newest else dataset.load_evidence(list(self.records))
        records = self.records
        if stored != self.base and must_match:
            # Another trajectory changed them meanwhile, which seldom changes the lessons.
            newest = _build_update(self.reflection, stored, list(records), self.playbook)
            if (newest.proposals, newest.subjects) != (self.proposals, self.subjects):
                return False
            records = newest.records
        elif stored != self.base:
            records = {name: add_trajectory(stored.get(name) or Evidence(name), self.reflection) for name in records}
        dataset.store_evidence(record for name, record in records.items() if record != stored.get(name))
        return True


async def generalize(reflection: Reflection, playbook: Snapshot, base: Mapping[str, Evidence]) -> EvidenceUpdate:
    """Return the records with the calls of the trajectory, and the proposals that they support.

    `base` has the stored records of its operations, as of the playbook.
    """
    operations = list_operations(reflection)
    if not operations:
        return EvidenceUpdate(reflection, playbook)
    if len(operations) <= INLINE_OPERATIONS:
        return _build_update(reflection, base, operations, playbook)
    return await asyncio.to_thread(_build_update, reflection, base, operations, playbook)


def _build_update(
    reflection: Reflection, base: Mapping[str, Evidence], operations: Sequence[str], playbook: Snapshot
) -> EvidenceUpdate:
    records = {name: add_trajectory(base.get(name) or Evidence(name), reflection) for name in operations}
    lessons = {name: derive_lessons(record) for name, record in records.items()}
    best = _select_most_significant(lesson for group in lessons.values() for lesson in group)
    proposals: list[Proposal] = []
    subjects: set[Subject] = set()
    index = _BulletIndex(playbook.slots.values())
    for name, group in lessons.items():
        chosen = [lesson for lesson in group if not lesson.other_operation or lesson in best]
        edits, records[name] = _propose(records[name], chosen, index)
        proposals += edits
        subjects |= {subject for lesson in chosen for subject in _list_subjects(name, lesson)}
    safe_proposals = tuple(map(hold_instruction, proposals))
    return EvidenceUpdate(reflection, playbook, base, records, safe_proposals, frozenset(subjects))


def _list_subjects(operation: str, lesson: GeneralLesson) -> set[Subject]:
    """Return the subjects of a lesson: its own, and the errors of the operation that it explains."""
    own = find_subject(lesson.text)
    return {Subject(operation, error) for error in lesson.errors} | ({own} if own is not None else set())


def _select_most_significant(lessons: Iterable[GeneralLesson]) -> list[GeneralLesson]:
    """Return the most significant lesson on each operation that separates failed trajectories."""
    best: dict[str, GeneralLesson] = {}
    for lesson in lessons:
        present = best.setdefault(lesson.other_operation, lesson)
        if lesson.chance < present.chance:
            best[lesson.other_operation] = lesson
    return list(best.values())


class _BulletIndex:
    """The bullets of a playbook by content and by subject.

    Each is made when a lesson needs it: most trajectories support no lesson that is not in the playbook.
    """

    def __init__(self, bullets: Iterable[StoredBullet]) -> None:
        self._bullets = bullets

    @cached_property
    def by_content(self) -> Mapping[str, Bullet]:
        """Return the bullets by content, the last of equal ones."""
        return {stored.bullet.content: stored.bullet for stored in self._bullets}

    @cached_property
    def _by_subject(self) -> Mapping[Subject, Sequence[Bullet]]:
        by_subject: dict[Subject, list[Bullet]] = {}
        for bullet in (stored.bullet for stored in self._bullets):
            if (subject := find_subject(bullet.content)) is not None:
                by_subject.setdefault(subject, []).append(bullet)
        return by_subject

    def list_about(self, subject: Subject | None) -> Sequence[Bullet]:
        """Return the bullets with this subject, in playbook order."""
        return () if subject is None else self._by_subject.get(subject, ())


def _propose(
    record: Evidence, lessons: Sequence[GeneralLesson], index: _BulletIndex
) -> tuple[list[Proposal], Evidence]:
    """Return the edits that bring the playbook to these lessons, and the record that knows of them.

    A bullet that somebody edited or removed after it was proposed stays as it is.
    """
    published = dict(record.published)
    proposals: list[Proposal] = []
    # Removals come first: a new bullet that resembles an outdated one would only confirm it.
    for heading in sorted(published.keys() - {lesson.heading for lesson in lessons}):
        outdated = index.by_content.get(published.pop(heading))
        if outdated is not None:
            proposals.append(_build_removal(outdated, REPLACED if outdated.section == EXAMPLES else CONTRADICTED))
    for lesson in lessons:
        before = published.get(lesson.heading)
        if before == lesson.text:
            continue
        # Else the bullet that one trajectory taught about the same message of the same operation.
        subject = None if lesson.section == EXAMPLES else find_subject(lesson.text)
        bullet = index.by_content.get(before) if before else next(iter(index.list_about(subject)), None)
        if before is None or bullet is not None:
            proposals.append(_build_proposal(lesson, "UPDATE" if bullet else "ADD", bullet))
            published[lesson.heading] = lesson.text
        explained = (Subject(record.operation, error) for error in dict.fromkeys(lesson.errors))
        proposals += [
            _build_removal(bullet, EXPLAINED) for subject in explained for bullet in index.list_about(subject)
        ]
    return proposals, replace(record, published=published)


def _build_removal(bullet: Bullet, reason: str) -> Proposal:
    return Proposal(
        DeltaContextItem(type="DELETE", section=bullet.section, bullet_id=bullet.id, content="", reasoning=reason)
    )


def _build_proposal(lesson: GeneralLesson, delta_type: DeltaType, bullet: Bullet | None) -> Proposal:
    delta = DeltaContextItem(
        type=delta_type,
        section=lesson.section if bullet is None else bullet.section,
        bullet_id=None if bullet is None else bullet.id,
        content=lesson.text,
        reasoning=_choose_reason(lesson),
    )
    return Proposal(delta, lesson.sources)


def _choose_reason(lesson: GeneralLesson) -> str:
    if lesson.section == EXAMPLES:
        return SHOWN
    return REPORTED if lesson.is_report else HOLDS_OVER_TASKS.format(tasks=len(lesson.sources))
