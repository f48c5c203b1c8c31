"""`hansei playbook diff|restore|revoke|review`: what changed, and taking it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.options import (
    Address,
    AsJson,
    Author,
    Dataset,
    Exit,
    Local,
    Reason,
    connected,
    dataset_or_only,
    fail,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hansei.client.client import Client
    from hansei.playbook.v1.review_pb2 import PendingChange


def diff(
    from_revision: Annotated[int, typer.Argument(metavar="FROM", min=0, help="The earlier revision; 0 is empty.")],
    to_revision: Annotated[int, typer.Argument(metavar="TO", min=0, help="The later revision; 0: the newest.")] = 0,
    dataset: Dataset = None,
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Compare two revisions of a playbook."""
    with connected(addr, local) as client:
        name = dataset_or_only(client, dataset)
        found = client.playbooks.diff_revisions(dataset=name, from_revision=from_revision, to_revision=to_revision)
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import playbooks

    if as_json:
        print_json(found)
    else:
        console().print(playbooks.changes(found.changes))


def restore(
    revision: Annotated[int, typer.Argument(metavar="REVISION", min=0, help="Whose bullets come back; 0 empties.")],
    dataset: Dataset = None,
    author: Author = "",
    reason: Reason = "",
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Make an earlier revision current again.

    It becomes a new revision; nothing of the log is lost.
    """
    with connected(addr, local) as client:
        name = dataset_or_only(client, dataset)
        done = client.playbooks.restore_revision(dataset=name, revision=revision, author=author, reason=reason)
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import playbooks

    if as_json:
        print_json(done)
    else:
        console().print(f"{name} is at revision {done.revision}", markup=False)
        console().print(playbooks.changes(done.changes))


def revoke(
    trajectory: Annotated[str, typer.Argument(metavar="TRAJECTORY", help="Id of the run whose traces go.")],
    dataset: Dataset = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    author: Author = "",
    reason: Reason = "",
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Take back what was learned from one run.

    It becomes a new revision; nothing of the log is lost.
    """
    with connected(addr, local) as client:
        name = dataset_or_only(client, dataset)
        done = client.playbooks.revoke_trajectory(
            dataset=name, trajectory_id=trajectory, dry_run=dry_run, author=author, reason=reason
        )
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import playbooks

    if as_json:
        print_json(done)
    else:
        console().print(playbooks.revoked(done, dry_run))


def review(
    dataset: Dataset = None,
    approve: Annotated[list[str] | None, typer.Option("--approve", metavar="ID", help="Apply it; repeatable.")] = None,
    reject: Annotated[list[str] | None, typer.Option("--reject", metavar="ID", help="Drop it; repeatable.")] = None,
    author: Author = "",
    reason: Reason = "",
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """List or decide the changes that wait.

    With --approve or --reject they are decided. A rejection needs a --reason.
    """
    if reject and not reason:
        fail("a rejection needs a --reason", Exit.USAGE)
    with connected(addr, local) as client:
        name = dataset_or_only(client, dataset)
        if approve or reject:
            found = _decide(client, name, approve or [], reject or [], author, reason)
        else:
            found = _waiting(client, name)
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import playbooks

    for change in found:
        if as_json:
            print_json(change, line=True)
        else:
            console().print(playbooks.pending(change))
    if not found and not as_json:
        console().print("nothing waits")


def _waiting(client: Client, dataset: str) -> Sequence[PendingChange]:
    found: list[PendingChange] = []
    token = ""
    while True:
        page = client.playbooks.list_pending_changes(dataset=dataset, page_token=token)
        found.extend(page.changes)
        token = page.next_page_token
        if not token:
            return found


def _decide(
    client: Client, dataset: str, approve: Sequence[str], reject: Sequence[str], author: str, reason: str
) -> Sequence[PendingChange]:
    from hansei.playbook.v1.playbook_service_pb2 import DECISION_APPROVE, DECISION_REJECT

    decided: list[PendingChange] = []
    for decision, ids in ((DECISION_APPROVE, approve), (DECISION_REJECT, reject)):
        if ids:
            done = client.playbooks.decide_pending_changes(
                dataset=dataset, ids=ids, decision=decision, author=author, reason=reason
            )
            decided.extend(done.changes)
    return decided
