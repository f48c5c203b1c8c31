"""`hansei playbook …`: read, compare, restore, merge and review playbooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli import playbook_files
from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import Author, Dataset, Exit, Reason, choose_dataset, connect_or_embed, fail
from hansei.client.pages import iterate_items, join_pages

if TYPE_CHECKING:
    from hansei.client.client import Client

app = CommandGroup("Read, compare, restore, move and review playbooks.")

AtRevision = Annotated[
    int | None, typer.Option("--revision", "-r", min=0, help="Show this revision. [default: the newest]")
]


@command(app, "playbooks.render_playbook", reads=True, pages=True)
def show(client: Client, dataset: Dataset = None, revision: AtRevision = None) -> object:
    """Show the bullets of a playbook, section by section."""
    name = choose_dataset(client, dataset)
    if revision is None:
        return join_pages(client.playbooks.get, dataset=name).playbook
    return join_pages(client.playbooks.get, dataset=name, revision=revision).playbook


@command(app, "playbooks.render_revision", reads=True, empty="The playbook has no history yet.")
def history(
    client: Client,
    bullet: Annotated[str | None, typer.Argument(help="Show only the changes of this bullet, oldest first.")] = None,
    dataset: Dataset = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="The number of revisions.")] = 20,
) -> object:
    """Show the revisions of a playbook, newest first, or of one bullet."""
    name = choose_dataset(client, dataset)
    if bullet:
        return list(iterate_items(client.playbooks.get_bullet_history, "revisions", dataset=name, bullet_id=bullet))
    revisions = iterate_items(client.playbooks.get_history, "revisions", dataset=name, page_size=limit)
    return list(islice(revisions, limit))


@command(app, "playbooks.render_difference", reads=True)
def diff(
    client: Client,
    from_revision: Annotated[
        int, typer.Argument(metavar="FROM", min=0, help="The earlier revision; revision 0 is empty.")
    ],
    to_revision: Annotated[int, typer.Argument(metavar="TO", min=0, help="The later revision; 0: the newest.")] = 0,
    dataset: Dataset = None,
) -> object:
    """Compare two revisions of a playbook."""
    name = choose_dataset(client, dataset)
    return join_pages(
        client.playbooks.diff_revisions, dataset=name, from_revision=from_revision, to_revision=to_revision
    )


@command(app, "playbooks.render_restoration")
def restore(
    client: Client,
    revision: Annotated[
        int, typer.Argument(metavar="REVISION", min=0, help="The revision to restore; 0 empties the playbook.")
    ],
    dataset: Dataset = None,
    author: Author = "",
    reason: Reason = "",
) -> object:
    """Restore an earlier revision.

    The result is a new revision; the history stays complete.
    """
    name = choose_dataset(client, dataset)
    return client.playbooks.restore_revision(dataset=name, revision=revision, author=author, reason=reason), name


@command(app, "playbooks.render_revocation")
def revoke(
    client: Client,
    trajectory: Annotated[str, typer.Argument(metavar="TRAJECTORY", help="The id of the trajectory.")],
    dataset: Dataset = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the changes.")] = False,
    author: Author = "",
    reason: Reason = "",
) -> object:
    """Undo everything that was learned from one trajectory.

    The result is a new revision; the history stays complete.
    """
    response = client.playbooks.revoke_trajectory(
        dataset=choose_dataset(client, dataset),
        trajectory_id=trajectory,
        dry_run=dry_run,
        author=author,
        reason=reason,
    )
    return response, dry_run


@command(app, "playbooks.render_pending_change", empty="No changes are pending.")
def review(
    client: Client,
    dataset: Dataset = None,
    approve: Annotated[
        list[str] | None, typer.Option("--approve", metavar="ID", help="Apply this change; repeatable.")
    ] = None,
    reject: Annotated[
        list[str] | None, typer.Option("--reject", metavar="ID", help="Reject this change; repeatable.")
    ] = None,
    author: Author = "",
    reason: Reason = "",
) -> object:
    """List the pending changes, or decide on them.

    --approve and --reject decide on changes. A rejection needs a --reason.
    """
    if reject and not reason:
        fail("a rejection needs a --reason", Exit.USAGE)
    if both := sorted({*(approve or [])} & {*(reject or [])}):
        fail(f"--approve and --reject both name {', '.join(both)}; decide on a change once", Exit.USAGE)
    name = choose_dataset(client, dataset)
    if approve or reject:
        return _decide(client, name, approve or [], reject or [], author, reason)
    return list(iterate_items(client.playbooks.list_pending_changes, "changes", dataset=name))


def _decide(
    client: Client, dataset: str, approve: Sequence[str], reject: Sequence[str], author: str, reason: str
) -> Iterator[object]:
    """Yield the decided changes. Ends the command if an approved change was not applied."""
    from hansei.playbook.v1.playbook_service_pb2 import DECISION_APPROVE, DECISION_REJECT
    from hansei.playbook.v1.review_pb2 import PENDING_STATE_EXPIRED, PENDING_STATE_STALE

    changes = [
        change
        for decision, ids in ((DECISION_APPROVE, approve), (DECISION_REJECT, reject))
        if ids
        for change in client.playbooks.decide_pending_changes(
            dataset=dataset, ids=ids, decision=decision, author=author, reason=reason
        ).changes
    ]
    yield from changes
    problems = {PENDING_STATE_STALE: "its bullet changed after the proposal", PENDING_STATE_EXPIRED: "it has expired"}
    refused = [
        f"change {change.id} was not applied: {problems[change.state]}"
        for change in changes
        if change.state in problems
    ]
    if refused:
        fail("; ".join(refused), Exit.FAILED if len(refused) == len(changes) else Exit.PARTLY)


app.command("export")(playbook_files.export_playbook)
app.command("sync")(playbook_files.sync_exports)
command(app, "playbooks.render_import", name="import", connect_with=connect_or_embed)(playbook_files.import_playbook)


@command(app, "playbooks.render_merge_result")
def merge(
    client: Client,
    sources: Annotated[list[str], typer.Argument(metavar="DATASET...", help="The datasets to merge.")],
    into: Annotated[str, typer.Option("--into", "-i", help="The dataset that gets the bullets; its own bullets stay.")],
    threshold: Annotated[
        float | None,
        typer.Option(
            help="The cosine similarity from which two bullets count as duplicates. [default: only equal texts]"
        ),
    ] = None,
    author: Author = "",
    reason: Reason = "",
) -> object:
    """Merge playbooks into one.

    Lists the bullets that have the same id or subject, but different texts.
    """
    response = client.playbooks.merge(
        dataset=into, from_datasets=sources, duplicate_threshold=threshold, author=author, reason=reason
    )
    return response, into
