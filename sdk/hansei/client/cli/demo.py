"""`hansei demo`: the learning loop on recorded trajectories, as a story or as JSON lines."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from hansei.client.cli.embedded_stack import build_temp_settings, embedded_client
from hansei.client.cli.loop import BUNDLED_TRAJECTORIES, Chapter, play_chapters, read_folder
from hansei.client.cli.output import create_console, print_json
from hansei.client.cli.show import outcomes as show
from hansei.client.cli.show import story
from hansei.client.cli.show.progress import progress_bar
from hansei.client.cli.show.words import FAINT
from hansei.client.client import Client
from hansei.client.learning import LearnOutcome
from hansei.client.server import load_server
from hansei.client.trajectories import TrajectoryRecord


def run_demo(trajectories: Path | None, as_json: bool) -> None:
    """Run every service offline in a temporary directory, and the learning loop on them."""
    load_server()  # if the servers are not installed, this is the first and only message
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hansei-demo-") as directory:
        if not as_json:
            create_console().print("Starting every service in this process: offline, no model, no key, no network …\n")
        with embedded_client(build_temp_settings(Path(directory))) as client:
            records = read_folder(client, trajectories or BUNDLED_TRAJECTORIES)
            if as_json:
                for chapter in play_chapters(client, records):
                    print_json(story.build_document(chapter), line=True)
            else:
                _show_story(client, records)
    if not as_json:
        console = create_console()
        console.print(Text(f"Done in {time.monotonic() - start:.1f} s; the directory is removed.", FAINT))
        console.print("Next: `hansei up`, and in another terminal `hansei learn FILE` and `hansei search QUERY`.")


def _show_story(client: Client, records: Sequence[TrajectoryRecord]) -> None:
    """Show each chapter, a heading before each kind of chapter, and a summary after the last outcome."""
    chapters: list[Chapter] = []
    start = time.monotonic()
    with progress_bar("learning", len(records), create_console()) as set_completed:
        for chapter in play_chapters(client, records):
            if chapters and isinstance(chapters[-1], LearnOutcome) and not isinstance(chapter, LearnOutcome):
                _show_summary(chapters, start)
            if not chapters or type(chapters[-1]) is not type(chapter):
                create_console().print(story.render_heading(chapter))
            create_console().print(story.render_chapter(chapter))
            chapters.append(chapter)
            set_completed(len(chapters))
    if chapters and isinstance(chapters[-1], LearnOutcome):
        _show_summary(chapters, start)


def _show_summary(chapters: Sequence[Chapter], start: float) -> None:
    outcomes = [chapter for chapter in chapters if isinstance(chapter, LearnOutcome)]
    create_console().print(show.render_summary(outcomes, time.monotonic() - start), Text())
