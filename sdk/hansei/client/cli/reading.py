"""`hansei playbook show|history`."""

from __future__ import annotations

from typing import Annotated

import typer

from hansei.client.cli.options import Address, AsJson, Dataset, Local, connected, dataset_or_only

AtRevision = Annotated[int | None, typer.Option("--revision", "-r", min=0, help="As of this revision. [default: now]")]


def show(
    dataset: Dataset = None,
    revision: AtRevision = None,
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Show the bullets of a playbook, section by section."""
    with connected(addr, local) as client:
        name = dataset_or_only(client, dataset)
        if revision is None:
            found = client.playbooks.get(dataset=name)
        else:
            found = client.playbooks.get(dataset=name, revision=revision)
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import playbooks

    if as_json:
        print_json(found.playbook)
    else:
        console().print(playbooks.playbook(found.playbook))


def history(
    bullet: Annotated[str | None, typer.Argument(help="Only what happened to this bullet, oldest first.")] = None,
    dataset: Dataset = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many, newest first.")] = 20,
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Show the log of a playbook, or of one bullet."""
    with connected(addr, local) as client:
        name = dataset_or_only(client, dataset)
        if bullet:
            found = client.playbooks.get_bullet_history(dataset=name, bullet_id=bullet).revisions
        else:
            found = client.playbooks.get_history(dataset=name, page_size=limit).revisions
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import playbooks

    for each in found:
        if as_json:
            print_json(each, line=True)
        else:
            console().print(playbooks.revision(each))
    if not found and not as_json:
        console().print("nothing happened yet")
