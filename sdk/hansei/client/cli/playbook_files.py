"""`hansei playbook export|import|sync`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.options import (
    STDIO,
    Address,
    AsJson,
    Author,
    DataDirectory,
    Dataset,
    Exit,
    Local,
    Reason,
    choose_dataset,
    connect_or_embed,
    fail,
    refuse_empty_path,
)
from hansei.client.cli.sources import read_source
from hansei.client.exports.kinds import ExportKind

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.client.exports.exporter import FileOutcome, TargetExport


class FileFormat(StrEnum):
    """The format of a playbook file; its values are those of the contract's PlaybookFormat."""

    JSON = "json"
    TEXT = "text"
    COUNTED = "counted"


DiscardEdits = Annotated[
    bool,
    typer.Option(
        "--discard-edits",
        help="Overwrite edits inside the block that hansei writes, instead of offering them for review.",
    ),
]


def export_playbook(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="The file to write; - for stdout. [default: -; with --to the usual one]"),
    ] = None,
    dataset: Dataset = None,
    file_format: Annotated[
        FileFormat, typer.Option("--format", "-f", help="counted: a line of text for each bullet, with its counters.")
    ] = FileFormat.JSON,
    revision: Annotated[int, typer.Option("--revision", "-r", min=0, help="Export this revision; 0: the newest.")] = 0,
    to: Annotated[
        ExportKind | None, typer.Option("--to", help="Write a file for agents, which `hansei playbook sync` updates.")
    ] = None,
    globs: Annotated[
        list[str] | None,
        typer.Option("--glob", metavar="GLOB", help="With --to …-rules: only for work on these files; repeatable."),
    ] = None,
    discard_edits: DiscardEdits = False,
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Write a playbook to a file.

    If no server runs and --addr is not given, the command reads the data directly, as with --local.
    """
    refuse_empty_path(file, "FILE")
    if to is None and (globs or discard_edits or as_json):
        fail("--glob, --discard-edits and --json need --to", Exit.USAGE)
    if to and (revision or file_format is not FileFormat.JSON):
        fail("--to writes the newest revision in its own format: omit --revision and --format", Exit.USAGE)
    if globs and to not in (ExportKind.CLAUDE_RULES, ExportKind.CURSOR_RULES):
        fail(f"--to {to} has no globs", Exit.USAGE)
    with connect_or_embed(addr, local, reads=not to) as client:
        name = choose_dataset(client, dataset)
        if to:
            _export_for_agents(client, name, to, file, tuple(globs or ()), discard_edits, as_json)
            return
        content = _read_playbook_file(client, name, file_format, revision)
    if file in (None, STDIO):
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        Path(str(file)).write_bytes(content)


def _read_playbook_file(client: Client, dataset: str, file_format: FileFormat, revision: int) -> bytes:
    from hansei.playbook.v1 import playbook_service_pb2 as playbook

    formats = {
        FileFormat.JSON: playbook.PLAYBOOK_FORMAT_JSON,
        FileFormat.TEXT: playbook.PLAYBOOK_FORMAT_TEXT_PLAIN,
        FileFormat.COUNTED: playbook.PLAYBOOK_FORMAT_TEXT_COUNTED,
    }
    return client.export_playbook(dataset, format=formats[file_format], revision=revision)


def _export_for_agents(
    client: Client,
    dataset: str,
    to: ExportKind,
    file: str | None,
    globs: tuple[str, ...],
    discard_edits: bool,
    as_json: bool,
) -> None:
    from hansei.client.exports.exporter import TargetExport
    from hansei.client.exports.manifest import record_target
    from hansei.client.exports.targets import ExportTarget

    project = Path.cwd()
    target = ExportTarget(to, dataset, "" if file in (None, STDIO) else str(file), globs)
    export = TargetExport(client, project, target, discard_edits=discard_edits)
    if file == STDIO:
        sys.stdout.write(export.format_new())
        return
    outcomes = _report(export, as_json)
    record_target(project, target)
    _exit_if_kept(outcomes)


def sync_exports(
    discard_edits: DiscardEdits = False,
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Update the files that `hansei playbook export --to` wrote in this folder.

    Text outside the blocks of hansei stays. Edits inside a block are offered for review; its file stays as it is until
    they are decided.
    """
    from hansei.client.exports.exporter import TargetExport
    from hansei.client.exports.manifest import MANIFEST, load_targets

    targets = load_targets(Path.cwd())
    if not targets:
        fail(f"there is no {MANIFEST} here; begin with: hansei playbook export --to agents-md", Exit.NOT_FOUND)
    outcomes: list[FileOutcome] = []
    with connect_or_embed(addr, local) as client:
        for target in targets:
            outcomes += _report(TargetExport(client, Path.cwd(), target, discard_edits=discard_edits), as_json)
    _exit_if_kept(outcomes)


def _report(export: TargetExport, as_json: bool) -> list[FileOutcome]:
    """Write the files of an export, and print a line for each."""
    from hansei.client.cli.output import print_json, print_line, say
    from hansei.client.cli.show.words import count_noun

    outcomes = []
    for outcome in export.write():
        outcomes.append(outcome)
        if as_json:
            print_json(asdict(outcome) | {"path": str(outcome.path)}, line=True)
            continue
        of_playbook = f"{count_noun(outcome.bullets, 'bullet')} of {outcome.dataset} at revision {outcome.revision}"
        detail = of_playbook if outcome.bullets else f"{outcome.dataset} at revision {outcome.revision}"
        print_line(f"{outcome.state:8}  {outcome.path}  {detail}")
        for note in outcome.notes:
            print_line(f"          {note}")
        if outcome.state == "waiting":
            print_line(f"          decide with: hansei playbook review --dataset {outcome.dataset}")
    if export.omitted_bullets and not as_json:
        say(f"not in these files: {count_noun(export.omitted_bullets, 'bullet')}")
    return outcomes


def _exit_if_kept(outcomes: Iterable[FileOutcome]) -> None:
    kept_files = [str(outcome.path) for outcome in outcomes if outcome.state in ("waiting", "refused")]
    if kept_files:
        fail(f"edited by hand, and left as they are: {', '.join(kept_files)}", Exit.PARTLY)


def import_playbook(
    client: Client,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A playbook as JSON or text, - for stdin; the format is detected.")
    ],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="The dataset that gets the bullets.")],
    replace: Annotated[bool, typer.Option("--replace", help="Remove the bullets that are not in the file.")] = False,
    author: Author = "",
    reason: Reason = "",
) -> object:
    """Import a playbook from a file into a dataset.

    If no server runs and --addr is not given, the command writes to the data directly, as with --local.
    """
    response = client.import_playbook(dataset, read_source(file), replace=replace, author=author, reason=reason)
    return response, dataset
