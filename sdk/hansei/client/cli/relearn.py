"""`hansei relearn`: learn a new playbook from archived trajectories, and compare it with the one of today."""

from __future__ import annotations

import os
from collections.abc import Set
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import print_result
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import Address, AsJson, DataDirectory, Exit, Local, connect, fail

if TYPE_CHECKING:
    from hansei.client.client import Client

commands = CommandGroup()

MODEL_VARIABLE = "HANSEI_LLM_MODEL"


@commands.command()
def relearn(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="The dataset with the archive.")],
    into: Annotated[
        str,
        typer.Option(
            "--into", metavar="NEW", help="The dataset that learns: a new one, or that of an interrupted relearn."
        ),
    ],
    model: Annotated[
        str, typer.Option(help="With --local: the chat model that reflects and curates.", show_default=False)
    ] = "",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help="The number of parallel calls.")] = 1,
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Learn a new playbook from the archived trajectories of DATASET, and show the difference.

    The trajectories are learned in the order in which they were stored. A command that was interrupted can be repeated:
    it learns nothing twice.
    """
    if into == dataset:
        fail("--into is the dataset of the archive; name a new dataset", Exit.USAGE)
    if model:
        if not local:
            fail(f"--model needs --local: the model of a server is its own setting, {MODEL_VARIABLE}", Exit.USAGE)
        os.environ[MODEL_VARIABLE] = model
    with connect(addr, local) as client:
        _learn_archive(client, dataset, into, jobs)
        print_result(_compare(client, dataset, into), as_json, "trajectories.render_comparison")


def _learn_archive(client: Client, dataset: str, into: str, jobs: int) -> None:
    from hansei.client.archive import read_archive, to_record
    from hansei.client.cli.output import create_console
    from hansei.client.cli.show.progress import progress_bar
    from hansei.client.learning import learn_all
    from hansei.client.trajectories import add_siblings

    records = add_siblings(to_record(archived, into) for archived in read_archive(client, dataset))
    if not records:
        fail(f"the archive of {dataset} is empty", Exit.NOT_FOUND)
    _refuse_other_dataset(client, into, {record.trajectory.id for record in records})
    failures = []
    with progress_bar("learning", len(records), create_console(stderr=True)) as set_completed:
        for count, outcome in enumerate(learn_all(client, records, jobs), 1):
            if outcome.failure:
                failures.append(f"{outcome.record.source}: {outcome.failure}")
            set_completed(count)
    if failures:
        number = f"{len(failures)} of {len(records)}"
        fail(f"{number} trajectories were not learned; repeat the command. The first: {failures[0]}", Exit.PARTLY)


def _refuse_other_dataset(client: Client, into: str, trajectories: Set[str]) -> None:
    """End the command unless the dataset is new, or learned from these trajectories only."""
    from hansei.client.errors import NotFound
    from hansei.client.pages import iterate_items
    from hansei.playbook.v1.playbook_pb2 import REVISION_KIND_DELETE

    try:
        for revision in iterate_items(client.playbooks.get_history, "revisions", dataset=into):
            is_deletion = revision.kind == REVISION_KIND_DELETE
            if not is_deletion and revision.source_trajectory not in trajectories:
                source = f"revision {revision.revision} of {into} is by {revision.author}: {revision.reason}"
                fail(f"--into must be a new dataset, or that of an interrupted relearn; {source}", Exit.USAGE)
    except NotFound:
        return


def _compare(client: Client, dataset: str, into: str) -> dict[str, Any]:
    """Return the bullets that both playbooks have, by their text, and those that one of them has."""
    from hansei.client.pages import join_pages

    before, after = (
        {bullet.content: bullet for bullet in join_pages(client.playbooks.get, dataset=name).playbook.bullets}
        for name in (dataset, into)
    )
    return {
        "dataset": dataset,
        "into": into,
        "same": [bullet for text, bullet in after.items() if text in before],
        "only_in_dataset": [bullet for text, bullet in before.items() if text not in after],
        "only_in_new": [bullet for text, bullet in after.items() if text not in before],
    }
