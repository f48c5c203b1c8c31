"""Playbooks, revisions and differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from hansei.client.cli.show.words import (
    BAD,
    CHANGED,
    FAINT,
    GOOD,
    ID,
    SIGN,
    VOTE,
    counted,
    hanging,
    one_line,
    time_of,
    votes_of,
)
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1.playbook_service_pb2 import MergeConflict, RevokeTrajectoryResponse
from hansei.playbook.v1.review_pb2 import PendingChange, PendingState


def playbook(book: pb.Playbook) -> RenderableType:
    """The bullets by section, in playbook order."""
    title = Text(book.dataset, "bold")
    title.append(f"  {counted(len(book.bullets), 'bullet')} at revision {book.revision}", FAINT)
    if book.HasField("updated_at"):
        title.append(f", {time_of(book.updated_at)}", FAINT)
    return Group(title, *_sections(book.bullets))


def _sections(bullets: Iterable[pb.Bullet]) -> Iterator[RenderableType]:
    by_section: dict[str, list[pb.Bullet]] = {}
    for bullet in bullets:
        by_section.setdefault(bullet.section, []).append(bullet)
    for section, members in by_section.items():
        yield Text.assemble("\n", (section or "(no section)", "bold"))
        yield from (_bullet(member) for member in members)


def _bullet(bullet: pb.Bullet) -> RenderableType:
    label = Text.assemble("  ", (bullet.id, ID), "  ", votes_of(bullet))
    if bullet.state == pb.BULLET_STATE_RETIRED:
        label.append("  retired", BAD)
    return Group(label, Padding(Text(bullet.content, overflow="fold"), (0, 0, 0, 4)))


def revision(entry: pb.Revision) -> RenderableType:
    """One entry of the log: what it was, why, and what it did to each bullet."""
    kind = pb.RevisionKind.Name(entry.kind).removeprefix("REVISION_KIND_").lower()
    title = Text.assemble((f"{entry.revision:>4}  ", "bold"), (kind, "bold"), f"  {entry.summary}")
    title.append(f"  {time_of(entry.committed_at)}  {entry.author}", FAINT)
    if entry.source_trajectory:
        title.append(f"  from {entry.source_trajectory}", FAINT)
    return Group(title, *_details(entry))


def _details(entry: pb.Revision) -> Iterator[RenderableType]:
    if entry.reason:
        yield hanging("because", one_line(entry.reason), indent=6)
    for operation in entry.operations:
        if operation.applied:
            body = Text.assemble((f"{operation.bullet_id} ", ID), one_line(operation.delta.content))
            yield hanging(SIGN[operation.delta.type], body, indent=6, width=1)
    for outcome in entry.votes:
        if outcome.applied:
            body = Text.assemble((f"{outcome.vote.bullet_id} ", ID), VOTE[outcome.vote.tag])
            yield hanging("", body, indent=6, width=1)


def changes(listed: Iterable[pb.BulletChange]) -> RenderableType:
    """How bullets differ: added, removed, or changed in text, section or votes."""
    shown = [line for change in listed for line in _change(change)]
    return Group(*shown) if shown else Text("no difference", FAINT)


def _change(change: pb.BulletChange) -> Iterator[RenderableType]:
    before, after = change.before, change.after
    if not change.HasField("before"):
        yield _side("+", GOOD, change.bullet_id, after)
    elif not change.HasField("after"):
        yield _side("-", BAD, change.bullet_id, before)
    elif (before.content, before.section) != (after.content, after.section):
        yield _side("-", BAD, change.bullet_id, before)
        yield _side("+", GOOD, change.bullet_id, after)
    else:
        yield hanging(
            Text("~", CHANGED), Text.assemble((f"{change.bullet_id} ", ID), _lesser_change(before, after)), width=1
        )


def _lesser_change(before: pb.Bullet, after: pb.Bullet) -> Text:
    """What changed of a bullet whose text and section did not."""
    if before.state != after.state:
        return Text("retired", BAD) if after.state == pb.BULLET_STATE_RETIRED else Text("active again", GOOD)
    if (before.helpful, before.harmful) != (after.helpful, after.harmful):
        return Text.assemble(votes_of(before), " → ", votes_of(after))
    if len(before.sources) != len(after.sources):
        return Text(f"rests on {counted(len(after.sources), 'run')}, {len(before.sources)} before", FAINT)
    return Text("keywords or searchable text", FAINT)


def _side(sign: str, style: str, bullet_id: str, bullet: pb.Bullet) -> RenderableType:
    body = Text.assemble((f"{bullet_id} ", ID), (f"{bullet.section} ", FAINT), (bullet.content, style))
    return hanging(Text(sign, style), body, width=1)


def revoked(done: RevokeTrajectoryResponse, dry_run: bool) -> RenderableType:
    """What a revocation took back, or would, and what a person should look at."""
    would = "would be " if dry_run else ""
    lines: list[RenderableType] = [
        Text(
            f"{counted(len(done.removed), 'bullet')} {would}removed, {len(done.reverted)} {would}reverted, "
            f"{counted(done.votes_removed, 'vote')} {would}taken back"
        ),
        changes(done.changes),
    ]
    if done.entangled:
        lines.append(Text(f"later changes built upon these, look at them: {', '.join(done.entangled)}", CHANGED))
    if not dry_run:
        lines.append(Text(f"now at revision {done.revision}", FAINT))
    return Group(*lines)


def merge_conflicts(conflicts: Iterable[MergeConflict]) -> RenderableType:
    """Pairs of bullets that a merge could not make one."""
    return Group(*(part for conflict in conflicts for part in _merge_conflict(conflict)))


def _merge_conflict(conflict: MergeConflict) -> Iterator[RenderableType]:
    yield Text(f"\n{conflict.reason}; {conflict.from_dataset}'s became {conflict.new_id}", CHANGED)
    yield _side("=", FAINT, conflict.ours.id, conflict.ours)
    yield _side("+", GOOD, conflict.theirs.id, conflict.theirs)


def pending(change: PendingChange) -> RenderableType:
    """A change that waits, or what was decided of it."""
    state = PendingState.Name(change.state).removeprefix("PENDING_STATE_").lower()
    title = Text.assemble((change.id, ID), f"  {state}  ", SIGN[change.delta.type], f" {change.delta.bullet_id}")
    title.append(f"  by {change.author}, {time_of(change.created_at)}", FAINT)
    parts: list[RenderableType] = [title, hanging("text", one_line(change.delta.content), indent=6)]
    if change.HasField("present"):
        parts.append(hanging("now", one_line(change.present.content), indent=6))
    for label, text in (("waits", change.waits_because), ("decided", change.decision_reason)):
        if text:
            parts.append(hanging(label, text, indent=6))
    return Group(*parts)
