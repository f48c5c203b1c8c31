"""Find and read the files of a project."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from hansei.client.errors import InvalidArgument, Violation


def locate_file(project: Path, relative: PurePosixPath) -> Path:
    """Return the path of a file of the project, symbolic links resolved. Raises InvalidArgument outside of it."""
    path = (project / relative).resolve()
    if not path.is_relative_to(project.resolve()):
        problem = f"is not in {project}; run the command in the folder that holds it"
        violations = [Violation("file", problem)]
        raise InvalidArgument(f"{relative} {problem}", reason="FILE_OUTSIDE_FOLDER", violations=violations)
    return path


def read_file(path: Path) -> str | None:
    """Return the text of a file; None if there is none. Raises InvalidArgument if it is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
