"""Records the example trajectories: `python -m examples.record [ID ...] [--out DIRECTORY]`."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from examples.recorder import tasks_git, tasks_http, tasks_python, tasks_sqlite
from examples.recorder.task import Script, record

TRAJECTORIES = Path(__file__).parent / "trajectories"
SCRIPTS: tuple[Script, ...] = (
    *tasks_git.SCRIPTS,
    *tasks_sqlite.SCRIPTS,
    *tasks_python.SCRIPTS,
    *tasks_http.SCRIPTS,
)
# The recorder's own clock: one trajectory every ten minutes, so that a new recording changes no time.
FIRST_ATTEMPT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
BETWEEN_ATTEMPTS = timedelta(minutes=10)


def record_scripts(directory: Path, ids: Sequence[str] = ()) -> list[Path]:
    """Record the scripts named by `ids` (none: all) as JSON files in `directory` and return the files.

    Raises ValueError for an unknown id, and ScriptBrokenError; both before a file is written.
    """
    unknown = sorted(set(ids) - {script.id for script in SCRIPTS})
    if unknown:
        raise ValueError(f"unknown script {unknown[0]!r}; known: {', '.join(script.id for script in SCRIPTS)}")
    trajectories = []
    for number, script in enumerate(SCRIPTS):
        if not ids or script.id in ids:
            created_at = (FIRST_ATTEMPT + number * BETWEEN_ATTEMPTS).strftime("%Y-%m-%dT%H:%M:%SZ")
            trajectories.append(record(script, created_at))
    directory.mkdir(parents=True, exist_ok=True)
    return [trajectory.save(directory) for trajectory in trajectories]


def main() -> None:
    """Record from the command line and print the paths of the files."""
    parser = argparse.ArgumentParser(prog="python -m examples.record", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="trajectories to record (default: all)")
    parser.add_argument("--out", type=Path, default=TRAJECTORIES, metavar="DIRECTORY", help="where the files go")
    arguments = parser.parse_args()
    try:
        paths = record_scripts(arguments.out, arguments.ids)
    except ValueError as error:
        parser.error(str(error))
    for path in paths:
        print(path)


if __name__ == "__main__":
    main()
