"""The directory with the data of the stack that a command or `Client.local()` runs: one for all of them."""

from __future__ import annotations

import os
from pathlib import Path

DATA_DIRECTORY_VARIABLE = "HANSEI_DATA_DIR"


def find_data_directory() -> Path:
    """Return the directory that HANSEI_DATA_DIR names, else the one of the platform."""
    from platformdirs import user_data_path

    chosen = os.environ.get(DATA_DIRECTORY_VARIABLE)
    return Path(chosen).absolute() if chosen else user_data_path("hansei", appauthor=False)
