"""`hansei learn`."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import (
    DATASET_VARIABLE,
    STDIO,
    Address,
    AsJson,
    DataDirectory,
    Exit,
    Local,
    connect,
    fail,
    refuse_empty_path,
)
from hansei.client.cli.sources import COMPRESSED, UnreadableSource, read_content

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.client.learning import LearnOutcome
    from hansei.client.trajectories import TrajectoryRecord
    from hansei.client.trajectory_files import UnreadablePart

commands = CommandGroup()

DEFAULT_DATASET = "default"
UNKNOWN_FORMAT = "UNKNOWN_TRAJECTORY_FORMAT"
SUFFIXES = {".json", ".jsonl", ".ndjson", ".traj"}
"""The suffixes of the files that are read from a folder, also before `.zst`; a file that is named may have any."""


@commands.command()
def learn(
    paths: Annotated[list[str], typer.Argument(metavar="FILE|DIR|-...", help="Files, folders, or - for stdin.")],
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset",
            "-d",
            envvar=DATASET_VARIABLE,
            help="The dataset for trajectories that name none.",
        ),
    ] = DEFAULT_DATASET,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help="The number of parallel calls.")] = 4,
    bulk: Annotated[
        bool, typer.Option("--bulk", help="Submit jobs to the server. They continue if this command ends.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="With --bulk: watch the jobs until they end.")] = True,
    again: Annotated[
        bool,
        typer.Option("--again", help="Also read the files of a folder that have not changed since they were learned."),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also show insights, edits and votes, and why a file matches no format."),
    ] = False,
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Learn from recorded trajectories.

    Reads JSON or JSON lines in any supported format, which is detected. Secrets are masked before anything is sent. The
    content of a trajectory is its idempotency key: a command that is repeated, or continued after an interruption,
    learns nothing twice. In a folder, only new files, and files that changed since they were learned, are read; a
    transcript that has grown is learned as a whole again, under the same id.
    """
    if not (wait or bulk):
        fail("--no-wait goes with --bulk: without it, the command itself learns", Exit.USAGE)
    files = list(_iterate_files(paths))
    with connect(addr, local) as client:
        progress = _FolderProgress(client, dataset, "" if local else client.address)
        if not again:
            files = progress.skip_unchanged(files, {path for path in paths if path != STDIO and Path(path).is_dir()})
        records, unreadable = _read_records(client, files, dataset, verbose)
        if dataset != DEFAULT_DATASET:
            _report_other_datasets(records, dataset)
        if bulk:
            if unreadable:
                fail(f"{len(unreadable)} parts could not be read, so no job was submitted", Exit.USAGE)
            from hansei.client.cli.jobs import learn_in_bulk

            learn_in_bulk(client, records, wait, as_json)
            return
        outcomes = _learn(client, records, jobs, as_json, verbose)
        unreadable_files = set(unreadable)
        progress.store([file for file in files if file not in unreadable_files], outcomes)
    _fail_without_model(outcomes)
    not_stored = sum(bool(outcome.failure) for outcome in outcomes)
    if unreadable or not_stored:
        if not outcomes:
            fail(f"nothing was learned: {len(unreadable)} could not be read", Exit.USAGE)
        fail(
            f"{not_stored} of {len(outcomes)} trajectories were not learned, {len(unreadable)} could not be read",
            Exit.FAILED if not_stored == len(outcomes) else Exit.PARTLY,
        )


def _fail_without_model(outcomes: Sequence[LearnOutcome]) -> None:
    """End the command with its own exit code if the model failed for a trajectory, and say why."""
    problems = [outcome.model_problem for outcome in outcomes if outcome.model_problem]
    if problems:
        not_saved = sum(bool(outcome.failure) for outcome in outcomes)
        fail(
            f"the model failed for {len(problems)} of {len(outcomes)} trajectories, of which {not_saved} were not "
            f"learned; repeat the command to learn these. {problems[0]}",
            Exit.MODEL_UNAVAILABLE,
        )


class _FolderProgress:
    """Skips the files of folders that were learned before, and stores those that are learned now."""

    def __init__(self, client: Client, dataset: str, server: str) -> None:
        from hansei.client.data_directory import find_data_directory
        from hansei.client.learned_files import LearnedFiles, LearnedState

        self._client = client
        self._learned = LearnedFiles(find_data_directory(), server, dataset)
        self._states: dict[str, LearnedState] = {}

    def skip_unchanged(self, files: Sequence[str], folders: Collection[str]) -> list[str]:
        """Return the files without those below `folders` that did not change since they were learned."""
        from hansei.client.cli.output import say
        from hansei.client.learned_files import read_state

        below = [file for file in files if file != STDIO and any(Path(file).is_relative_to(path) for path in folders)]
        self._states = {file: read_state(file) for file in below}
        if not self._states:
            return list(files)
        unchanged = self._learned.list_unchanged(self._states.values(), self._read_datasets())
        if unchanged:
            say(f"{len(unchanged)} files did not change since they were learned; --again reads them, too")
        return [file for file in files if file not in self._states or self._states[file].path not in unchanged]

    def store(self, files: Sequence[str], outcomes: Sequence[LearnOutcome]) -> None:
        """Store those files of folders of which every trajectory was learned."""
        by_file: dict[str, list[LearnOutcome]] = {}
        for outcome in outcomes:
            by_file.setdefault(outcome.record.file, []).append(outcome)
        learned_files = {
            file: {outcome.record.trajectory.dataset for outcome in by_file[file]}
            for file in files
            if file in self._states and file in by_file and not any(outcome.failure for outcome in by_file[file])
        }
        if learned_files:
            existing = self._read_datasets()
            self._learned.add(
                {
                    self._states[file]: {dataset: existing.get(dataset, 0) for dataset in datasets}
                    for file, datasets in learned_files.items()
                }
            )

    def _read_datasets(self) -> dict[str, int]:
        """Return the datasets of the server with the revisions in which earlier ones of their names were deleted."""
        from hansei.client.pages import iterate_items

        datasets = iterate_items(self._client.playbooks.list_datasets, "datasets", page_size=1000)
        return {dataset.name: dataset.deleted_revision for dataset in datasets}


def _iterate_files(paths: Sequence[str]) -> Iterator[str]:
    """Yield the name of every file, `-` for stdin. A path that does not exist ends the command."""
    for path in paths:
        refuse_empty_path(path, "FILE|DIR")
        if path != STDIO and Path(path).is_dir():
            files = sorted(file for file in Path(path).rglob("*") if _is_read(file) and file.is_file())
            if not files:
                fail(f"{path} has no file with one of the suffixes {', '.join(sorted(SUFFIXES))}", Exit.USAGE)
            yield from map(str, files)
        elif path == STDIO or Path(path).is_file():
            yield path
        else:
            fail(f"{path} does not exist", Exit.USAGE)


def _is_read(file: Path) -> bool:
    """Return whether a file of a folder is read: by its suffix, and not beside the same file without compression."""
    if file.suffix != COMPRESSED:
        return file.suffix in SUFFIXES
    plain = file.with_suffix("")
    return plain.suffix in SUFFIXES and not plain.exists()


def _read_records(
    client: Client, files: Sequence[str], dataset: str, verbose: bool
) -> tuple[list[TrajectoryRecord], list[str]]:
    """Return the trajectories of all files with their siblings, and the file of each part that could not be read."""
    from hansei.client.cli.output import create_console, say
    from hansei.client.cli.show.progress import progress_bar
    from hansei.client.masking import SecretMask, mask_content
    from hansei.client.trajectories import TrajectoryRecord, add_siblings
    from hansei.client.trajectory_files import read_trajectories

    records: list[TrajectoryRecord] = []
    notes: set[str] = set()
    unreadable: list[str] = []
    mask = SecretMask(os.environ, ())
    with progress_bar("reading", len(files), create_console(stderr=True)) as set_completed:
        for number, file in enumerate(files):
            source = "stdin" if file == STDIO else file
            set_completed(number)
            try:
                content = mask_content(mask, read_content(file))
            except UnreadableSource as error:
                unreadable.append(file)
                say(f"{source}: Error: {error}")
                continue
            for part in read_trajectories(client, source, content, dataset):
                if isinstance(part, TrajectoryRecord):
                    records.append(replace(part, file=file))
                    if part.note and part.note not in notes:
                        notes.add(part.note)
                        say(f"{part.source}: {part.note}")
                else:
                    unreadable.append(file)
                    _report_unreadable(part, verbose)
            set_completed(number + 1)
    return add_siblings(records), unreadable


def _report_unreadable(part: UnreadablePart, verbose: bool) -> None:
    """Show why a part is no trajectory; of a part in no format, the reasons of all formats only with `verbose`."""
    from hansei.client.cli.failures import format_error_lines
    from hansei.client.cli.output import say

    lines = format_error_lines(part.error)
    if part.error.reason == UNKNOWN_FORMAT and not verbose:
        lines[1:] = ["  --verbose shows for each format why it does not match"]
    for line in lines:
        say(f"{part.source}: {line}")


def _report_other_datasets(records: Sequence[TrajectoryRecord], dataset: str) -> None:
    """Say how many trajectories name other datasets than the chosen one: they are learned there."""
    from hansei.client.cli.output import say
    from hansei.client.cli.show.words import count_noun

    names = Counter(record.trajectory.dataset for record in records)
    named = [f"{count_noun(number, 'trajectory')} of {name}" for name, number in names.items() if name != dataset]
    if named:
        say(f"not learned into {dataset}, as they name another dataset: {', '.join(named)}")


def _learn(
    client: Client, records: Sequence[TrajectoryRecord], jobs: int, as_json: bool, verbose: bool
) -> list[LearnOutcome]:
    """Learn, and show each outcome as soon as it is known: as a JSON line, as a report, or on one line."""
    from hansei.client.cli.output import create_console, print_json, say
    from hansei.client.cli.show import outcomes as show
    from hansei.client.cli.show.progress import progress_bar
    from hansei.client.errors import Unavailable
    from hansei.client.learning import learn_all

    outcomes: list[LearnOutcome] = []
    start = time.monotonic()
    # The bar must share the console of the results, except beside JSON, which has stdout for itself.
    with progress_bar("learning", len(records), create_console(stderr=as_json)) as set_completed:
        try:
            for outcome in learn_all(client, records, jobs):
                outcomes.append(outcome)
                if as_json:
                    print_json(show.build_document(outcome), line=True)
                else:
                    create_console().print(show.render_outcome(outcome) if verbose else show.render_line(outcome))
                set_completed(len(outcomes))
        except (KeyboardInterrupt, Unavailable) as end:
            done = f"{len(outcomes)} of {len(records)} trajectories are done; repeat the command to continue"
            if isinstance(end, KeyboardInterrupt):
                fail(f"interrupted: {done}", Exit.INTERRUPTED)
            say(done)
            raise
    if outcomes and not as_json:
        create_console().print()
        create_console().print(show.render_summary(outcomes, time.monotonic() - start), crop=False)
    return outcomes
