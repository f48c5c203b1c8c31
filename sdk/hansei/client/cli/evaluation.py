"""`hansei eval …`: how good retrieval and blame are on labelled files. Needs no server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hansei.client.cli.options import AsJson, Exit, fail
from hansei.client.cli.output import say

app = typer.Typer(help="Measure retrieval and blame on labelled files.", no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The labelled file.", exists=True, dir_okay=False)]


@app.command()
def retrieval(
    file: File,
    variant: Annotated[
        list[str] | None, typer.Option(help="A way to rank to compare with, such as bm25, vectors, rrf; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure search: nDCG@10, recall@5 and @10.

    FILE is a retrieval set, {"docs", "queries", "qrels"}. Settings and embedder are those of the search service.
    """
    from hansei.client.cli.embedded import provider
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import scores
    from hansei.client.local import environment
    from hansei.client.server import server

    commands = server()
    unknown = sorted(set(variant or ()) - set(commands.retrieval_variants()))
    if unknown:
        fail(f"unknown variant {', '.join(unknown)}; there are {', '.join(commands.retrieval_variants())}", Exit.USAGE)
    with environment({"HANSEI_LLM_PROVIDER": provider()}):
        qualities = commands.evaluate_retrieval(file, variant or ())
    if as_json:
        print_json(qualities)
    else:
        console().print(scores.retrieval(qualities))


@app.command()
def blame(file: File, as_json: AsJson = False) -> None:
    """Measure how often the step and the agent to blame are named.

    FILE holds Who&When logs with labels, one a line. Measured are the rules that work without a model.
    """
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import scores
    from hansei.client.server import server

    found = server().evaluate_blame(file)
    if as_json:
        print_json(found)
    else:
        console().print(scores.blame(found))


@app.command()
def foresight(
    file: File,
    out: Annotated[
        Path, typer.Option(help="Folder for the curve, foresight.json and foresight.png.", file_okay=False)
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Measure how often earlier runs warn of an error.

    Goes through the runs of FILE in order: for each tool error, is there a bullet of an earlier run that warns of it
    among the top five for what happened before? Then the run is learned, offline, in a playbook of its own.
    """
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import scores
    from hansei.client.cli.watching import watch, write_curve

    curve = watch(file)
    if as_json:
        print_json(curve[-1].document())
    else:
        console().print(scores.foresight(curve[-1]))
    for written in write_curve(curve, out):
        say(f"wrote {written}")
