"""`hansei dataset …`: delete datasets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import Author, Exit, Reason, fail

if TYPE_CHECKING:
    from hansei.client.client import Client

app = CommandGroup("Delete datasets.")


@command(app, "playbooks.render_deletion")
def delete(
    client: Client,
    dataset: Annotated[str, typer.Argument(metavar="NAME", help="The dataset.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for a confirmation.")] = False,
    author: Author = "",
    reason: Reason = "",
) -> object:
    """Delete a dataset and erase its contents.

    Erases bullets, history, votes, pending changes and the policy, and soon afterwards trials and archived
    trajectories; this cannot be undone. If the name is used again, that is a new dataset.
    """
    if not yes:
        _confirm(client, dataset)
    return client.playbooks.delete_dataset(dataset=dataset, author=author, reason=reason), dataset


def _confirm(client: Client, dataset: str) -> None:
    """End the command unless a person types the name of the dataset."""
    if not sys.stdin.isatty():
        fail("without a terminal, a deletion needs --yes", Exit.USAGE)
    from hansei.client.cli.output import say

    bullets = client.playbooks.get_dataset(dataset=dataset).dataset.bullets
    say(f"This erases the {bullets} bullets of {dataset} and their history. Type the name of the dataset to continue:")
    if sys.stdin.readline().strip() != dataset:
        fail("nothing was deleted: the typed name is not the name of the dataset", Exit.FAILED)
