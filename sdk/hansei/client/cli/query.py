"""`hansei search` and `hansei ask`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import Dataset, Exit, choose_dataset, require_dataset

if TYPE_CHECKING:
    from hansei.client.client import Client

commands = CommandGroup()

Query = Annotated[str, typer.Argument(metavar="QUERY", help="The text to search for, or the question.")]
MinRevision = Annotated[int, typer.Option(min=0, help="Wait until the index holds this revision of the playbook.")]


def exit_if_unanswered(response: Any) -> None:
    """End the command with 1 if the model gave no answer."""
    from hansei.client.cli.show import search_results

    if search_results.is_failure(response):
        raise typer.Exit(Exit.FAILED)


@command(commands, "search_results.render_bullets", reads=True)
def search(
    client: Client,
    query: Query,
    dataset: Dataset = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="The number of bullets.")] = 10,
    section: Annotated[list[str] | None, typer.Option(help="Return only bullets of this section; repeatable.")] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Return only bullets with at least this confidence. [default: leave out mostly harmful ones]",
        ),
    ] = None,
    alpha: Annotated[float | None, typer.Option(min=0, max=1, help="The weight of the vector score.")] = None,
    min_revision: MinRevision = 0,
    explain: Annotated[bool, typer.Option(help="Also show the terms that matched.")] = False,
) -> object:
    """Rank the bullets of a playbook for a query.

    Shows for each bullet the combined score, the similarity to the query, whether it has a word of the query, and the
    vector and BM25 scores. The similarity is absolute; the scores compare the bullets with each other.
    """
    return client.search(
        choose_dataset(client, dataset),
        query,
        top_k=top_k,
        sections=section or (),
        min_confidence=min_confidence,
        alpha=alpha,
        min_revision=min_revision,
        explain=explain,
    )


@command(commands, "search_results.render_answer", reads=True, check=exit_if_unanswered)
def ask(
    client: Client,
    query: Query,
    dataset: Dataset = None,
    min_revision: MinRevision = 0,
    session: Annotated[
        str,
        typer.Option(
            metavar="ID", help="The id of the session, whose outcome you report for trials.", show_default=False
        ),
    ] = "",
) -> object:
    """Answer a question from a playbook."""
    name = choose_dataset(client, dataset)
    require_dataset(client, name)
    return client.ask(name, query, min_revision=min_revision, session_id=session)
