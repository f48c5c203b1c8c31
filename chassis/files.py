"""Files that are replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write a whole file or nothing; a file that exists keeps its permissions. Missing folders are created.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o7777 if path.exists() else None
    # A file that exists may be private, so nobody else can read the new one before it has the same permissions.
    first_mode = 0o666 if mode is None else 0o600
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, first_mode)) as file:
            file.write(content)
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
