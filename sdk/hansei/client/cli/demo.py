"""`hansei demo`: the loop on recorded runs, told as a story or as JSON lines."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from hansei.client.cli.embedded import embedded_client, throwaway
from hansei.client.cli.loop import RECORDED, Chapter, chapters, recorded_runs
from hansei.client.cli.output import console, print_json
from hansei.client.cli.show import learned, story
from hansei.client.cli.show.progress import progress
from hansei.client.cli.show.words import FAINT
from hansei.client.client import Client
from hansei.client.learning import Outcome
from hansei.client.runs import Run
from hansei.client.server import server


def run_demo(trajectories: Path | None, lines: bool) -> None:
    """Run every service offline on a directory of its own, and the loop on it; both are gone afterwards."""
    server()  # says that it is missing before anything else is said
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hansei-demo-") as directory:
        if not lines:
            console().print("Starting every service in this process: offline, no model, no key, no network …\n")
        with embedded_client(throwaway(Path(directory))) as client:
            runs = recorded_runs(client, trajectories or RECORDED)
            if lines:
                for chapter in chapters(client, runs):
                    print_json(story.document(chapter), line=True)
            else:
                _tell(client, runs)
    if not lines:
        console().print(Text(f"Done in {time.monotonic() - began:.1f} s; the directory is removed.", FAINT))
        console().print("Next: `hansei up`, and in another terminal `hansei learn FILE` and `hansei search QUERY`.")


def _tell(client: Client, runs: Sequence[Run]) -> None:
    """Print the chapters as they come, a heading before each kind of them, and a summary after the learning."""
    told: list[Chapter] = []
    began = time.monotonic()
    with progress("learning", len(runs), console()) as advance:
        for chapter in chapters(client, runs):
            if told and isinstance(told[-1], Outcome) and not isinstance(chapter, Outcome):
                outcomes = [each for each in told if isinstance(each, Outcome)]
                console().print(learned.summary(outcomes, time.monotonic() - began), Text())
            if not told or type(told[-1]) is not type(chapter):
                console().print(story.heading(chapter))
            console().print(story.view(chapter))
            told.append(chapter)
            advance()
