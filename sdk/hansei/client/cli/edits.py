"""`hansei remember|forget|edit`: edit single bullets by hand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import Author, Dataset, Exit, Reason, choose_dataset, fail, require_bullet

if TYPE_CHECKING:
    from hansei.client.client import Client

commands = CommandGroup()

BulletId = Annotated[str, typer.Argument(metavar="ID", help="The id of the bullet.")]


@command(commands, "playbooks.render_edit_result")
def remember(
    client: Client,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The lesson.")],
    dataset: Dataset = None,
    section: Annotated[str | None, typer.Option(help="The section. [default: strategies_and_hard_rules]")] = None,
    author: Author = "",
    reason: Reason = "",
) -> object:
    """Add a lesson to a playbook.

    Shows the id of the new bullet, or of the bullet that has the same lesson already.
    """
    from hansei.client.client import NEW_DATASET
    from hansei.client.edits import DEFAULT_SECTION

    name = choose_dataset(client, dataset, new=NEW_DATASET)
    chosen = DEFAULT_SECTION if section is None else section
    return client.remember(name, text, section=chosen, author=author, reason=reason), name


@command(commands, "playbooks.render_edit_result")
def forget(
    client: Client, bullet_id: BulletId, dataset: Dataset = None, author: Author = "", reason: Reason = ""
) -> object:
    """Remove a bullet from a playbook.

    The history keeps it. Only `hansei dataset delete` erases history, that of the whole dataset.
    """
    name = choose_dataset(client, dataset)
    return client.forget(name, bullet_id, author=author, reason=reason), name


@command(commands, "playbooks.render_edit_result")
def edit(
    client: Client,
    bullet_id: BulletId,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The new text. [default: open the editor on the present one]")
    ] = None,
    dataset: Dataset = None,
    author: Author = "",
    reason: Reason = "",
) -> object:
    """Replace the text of a bullet."""
    name = choose_dataset(client, dataset)
    base_revision = None
    if text is None:
        text, base_revision = _edit_present_text(client, name, bullet_id)
    return client.edit(name, bullet_id, text, author=author, reason=reason, base_revision=base_revision), name


def _edit_present_text(client: Client, dataset: str, bullet_id: str) -> tuple[str, int]:
    """Return the text from the user's editor, and the revision of the text that the editor opened on."""
    import click

    if not sys.stdin.isatty():
        fail("without a terminal, edit needs the new TEXT", Exit.USAGE)
    page = require_bullet(client, dataset, bullet_id)
    text = click.edit(page.bullets[0].content)
    if text is None or text.strip() == page.bullets[0].content.strip():
        fail("the text was not changed", Exit.FAILED)
    return text, page.revision
