"""Read and replace the files of a project."""

from __future__ import annotations

import contextlib
import os
import tempfile
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


def write_file(path: Path, text: str) -> None:
    """Replace a file in one step, with the permissions that it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
        os.chmod(temporary, path.stat().st_mode & 0o7777 if path.exists() else 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
