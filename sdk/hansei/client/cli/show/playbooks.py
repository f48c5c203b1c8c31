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
    count_noun,
    format_enum_name,
    format_time,
    format_vote_counters,
    label_row,
    put_on_one_line,
)
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service
from hansei.playbook.v1.review_pb2 import PendingChange, PendingState


def render_playbook(content: pb.Playbook) -> RenderableType:
    """Show the bullets by section, in the order of the playbook."""
    title = Text(content.dataset, "bold")
    title.append(f"  {count_noun(len(content.bullets), 'bullet')} at revision {content.revision}", FAINT)
    if content.HasField("updated_at"):
        title.append(f", {format_time(content.updated_at)}", FAINT)
    return Group(title, *_render_sections(content.bullets))


def _render_sections(bullets: Iterable[pb.Bullet]) -> Iterator[RenderableType]:
    by_section: dict[str, list[pb.Bullet]] = {}
    for bullet in bullets:
        by_section.setdefault(bullet.section, []).append(bullet)
    for section, members in by_section.items():
        yield Text.assemble("\n", (section or "(no section)", "bold"))
        for bullet in members:
            yield Text.assemble("  ", (bullet.id, ID), "  ", format_vote_counters(bullet), _render_retired_mark(bullet))
            yield Padding(Text(bullet.content, overflow="fold"), (0, 0, 0, 4), expand=False)


def _render_retired_mark(bullet: pb.Bullet) -> Text:
    return Text("  retired" if bullet.state == pb.BULLET_STATE_RETIRED else "", BAD)


def render_revision(entry: pb.Revision) -> RenderableType:
    """Show one revision: its kind, reason and origin, and its effect on each bullet."""
    title = Text.assemble(
        (f"{entry.revision:>4}  ", "bold"),
        (format_enum_name(pb.RevisionKind, entry.kind), "bold"),
        f"  {entry.summary}",
    )
    title.append(f"  {format_time(entry.committed_at)}  {entry.author}", FAINT)
    if entry.source_trajectory:
        title.append(f"  from {entry.source_trajectory}", FAINT)
    return Group(title, *_render_details(entry))


def _render_details(entry: pb.Revision) -> Iterator[RenderableType]:
    if entry.reason:
        yield label_row("reason", put_on_one_line(entry.reason), indent=6)
    changes = {change.bullet_id: change for change in entry.changes}
    for operation in entry.operations:
        if operation.applied:
            change = changes.pop(operation.bullet_id, pb.BulletChange())
            text = operation.delta.content or change.after.content or change.before.content
            body = Text.assemble((f"{operation.bullet_id} ", ID), put_on_one_line(text), _render_guard_change(change))
            yield label_row(SIGN[operation.delta.type], body, indent=6, width=1)
    for change in changes.values():  # a restoration, for example, has no operations
        if guard_change := _render_guard_change(change):
            yield label_row(Text("~", CHANGED), Text.assemble((change.bullet_id, ID), guard_change), indent=6, width=1)
    for outcome in entry.votes:
        if outcome.applied:
            body = Text.assemble((f"{outcome.vote.bullet_id} ", ID), VOTE[outcome.vote.tag])
            yield label_row("", body, indent=6, width=1)
    yield from _render_omitted(entry.omitted.changes, entry.revision)


def render_difference(response: service.DiffRevisionsResponse) -> RenderableType:
    """Show the difference of two revisions."""
    return _render_changes(response.changes)


def render_restoration(response: service.RestoreRevisionResponse, dataset: str) -> RenderableType:
    """Show the new revision and the changes of a restoration."""
    return Group(
        Text(f"{dataset} is at revision {response.revision}"),
        _render_changes(response.changes),
        *_render_omitted(response.omitted_changes, response.revision),
    )


def _render_omitted(count: int, revision: int) -> Iterator[RenderableType]:
    """Say how many changes did not fit the response, and how to see them; revision 0: they are not made."""
    if count:
        remedy = f": hansei playbook diff {revision - 1} {revision}" if revision else ""
        yield Text(f"… and {count:,} more{remedy}", FAINT)


def _render_changes(changes: Iterable[pb.BulletChange]) -> RenderableType:
    """Show bullets that were added, removed, or changed in text, section or votes."""
    lines = [line for change in changes for line in _render_change(change)]
    return Group(*lines) if lines else Text("no difference", FAINT)


def _render_change(change: pb.BulletChange) -> Iterator[RenderableType]:
    before, after = change.before, change.after
    has_before, has_after = change.HasField("before"), change.HasField("after")
    if has_before and has_after and (before.content, before.section) == (after.content, after.section):
        guard_change = _render_guard_change(change)
        minor_change = _render_minor_change(before, after, has_guard_change=bool(guard_change))
        body = Text.assemble((f"{change.bullet_id} ", ID), minor_change, guard_change)
        yield label_row(Text("~", CHANGED), body, width=1)
        return
    if has_before:
        yield _render_bullet_row("-", BAD, change.bullet_id, before)
    if has_after:
        yield _render_bullet_row("+", GOOD, change.bullet_id, after)
    if guard_change := _render_guard_change(change):
        yield label_row("", Text.assemble((change.bullet_id, ID), guard_change), width=1)


def _render_guard_change(change: pb.BulletChange) -> Text:
    """Show the target and the mode of a guard before and after; an empty text if they are equal."""
    before, after = change.before.target, change.after.target
    if before == after:
        return Text()
    states = [Text(_describe_guard(before), BAD), Text(_describe_guard(after), GOOD)]
    return Text.assemble("  guard: ", states[0], " → ", states[1])


def _describe_guard(target: pb.Target) -> str:
    if not target.expression:
        return "none"
    mode = format_enum_name(pb.TargetMode, target.mode or pb.TARGET_MODE_SHADOW)
    return f"{mode}{', pinned' if target.pinned else ''}, {target.expression}"


def _render_minor_change(before: pb.Bullet, after: pb.Bullet, *, has_guard_change: bool) -> Text:
    """Show the change of a bullet whose text and section are the same."""
    if before.state != after.state:
        return Text("retired", BAD) if after.state == pb.BULLET_STATE_RETIRED else Text("active again", GOOD)
    if (before.helpful, before.harmful) != (after.helpful, after.harmful):
        return Text.assemble(format_vote_counters(before), " → ", format_vote_counters(after))
    if len(before.sources) != len(after.sources):
        return Text(f"source trajectories: {len(before.sources)} → {len(after.sources)}", FAINT)
    return Text("" if has_guard_change else "keywords or searchable text", FAINT)


def _render_bullet_row(sign: str, style: str, bullet_id: str, bullet: pb.Bullet) -> RenderableType:
    body = Text.assemble((f"{bullet_id} ", ID), (f"{bullet.section} ", FAINT), (bullet.content, style))
    return label_row(Text(sign, style), body, width=1)


def render_revocation(response: service.RevokeTrajectoryResponse, dry_run: bool) -> RenderableType:
    """Show the changes of a revocation, and the bullets that a person should check."""
    if not (response.changes or response.votes_removed or response.entangled):
        return Text(f"no bullet and no vote comes from this trajectory; revision {response.revision} is unchanged")
    would = "would be " if dry_run else ""
    lines: list[RenderableType] = [
        Text(
            f"{count_noun(len(response.removed), 'bullet')} {would}removed, {len(response.reverted)} {would}reverted, "
            f"{count_noun(response.votes_removed, 'vote')} {would}removed"
        ),
        _render_changes(response.changes),
        *_render_omitted(response.omitted_changes, 0 if dry_run else response.revision),
    ]
    if response.entangled:
        lines.append(Text(f"later changes depend on these, check them: {', '.join(response.entangled)}", CHANGED))
    if not dry_run:
        lines.append(Text(f"now at revision {response.revision}", FAINT))
    return Group(*lines)


def render_edit_result(response: service.ApplyDeltasResponse, dataset: str) -> RenderableType:
    """Show the outcome of one edit, with the id of the bullet."""
    (operation,) = response.operations
    for change in response.pending:
        decision = f"hansei playbook review --dataset {dataset} --approve {change.id}"
        return Text(f"the change waits for review: {change.review_reason}\napprove it with: {decision}", CHANGED)
    if not operation.applied:
        return Text.assemble((operation.bullet_id, ID), f" of {dataset} already says this; nothing was added")
    verbs = {pb.DELTA_TYPE_ADD: "remembered", pb.DELTA_TYPE_UPDATE: "changed", pb.DELTA_TYPE_DELETE: "forgotten"}
    title = (operation.bullet_id, ID)
    return Text.assemble(title, f" {verbs[operation.delta.type]}: {dataset} is at revision {response.revision}")


def render_deletion(response: service.DeleteDatasetResponse, dataset: str) -> RenderableType:
    """Show the numbers of items that a deletion erased."""
    return Text(f"{dataset} is deleted: {count_noun(response.bullets, 'bullet')} and the history are erased")


def render_import(response: service.ImportPlaybookResponse, dataset: str) -> RenderableType:
    """Show the new revision and the counts of an import."""
    counts = f"{response.added} added, {response.updated} updated, {response.removed} removed"
    return Text(f"{dataset} is at revision {response.revision}: {counts}")


def render_merge_result(response: service.MergePlaybooksResponse, dataset: str) -> RenderableType:
    """Show the new revision, the counts and the conflicts of a merge."""
    counts = f"{response.added} added, {response.merged} merged"
    lines: list[RenderableType] = [Text(f"{dataset} is at revision {response.revision}: {counts}")]
    for conflict in response.conflicts:
        lines += [
            Text(f"\n{conflict.reason}; {conflict.from_dataset}'s became {conflict.new_id}", CHANGED),
            _render_bullet_row("=", FAINT, conflict.existing_bullet.id, conflict.existing_bullet),
            _render_bullet_row("+", GOOD, conflict.incoming_bullet.id, conflict.incoming_bullet),
        ]
    return Group(*lines)


def render_pending_change(change: PendingChange) -> RenderableType:
    """Show a pending change, or the decision on it."""
    state = format_enum_name(PendingState, change.state)
    title = Text.assemble((change.id, ID), f"  {state}  ", SIGN[change.delta.type], f" {change.delta.bullet_id}")
    title.append(f"  by {change.author}, {format_time(change.created_at)}", FAINT)
    parts: list[RenderableType] = [title, label_row("text", put_on_one_line(change.delta.content), indent=6)]
    if change.HasField("current_bullet"):
        parts.append(label_row("now", put_on_one_line(change.current_bullet.content), indent=6))
    for label, text in (("pending", change.review_reason), ("decided", change.decision_reason)):
        if text:
            parts.append(label_row(label, text, indent=6))
    return Group(*parts)
