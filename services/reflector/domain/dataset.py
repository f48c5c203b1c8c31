"""The rule for dataset names (C-13), which also select a template file (R-29)."""

from __future__ import annotations

import re

from services.reflector.domain.errors import InvalidTrajectoryDataset

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def check_dataset(name: str) -> str:
    """Return `name` if it is a dataset name (C-13). Raise InvalidTrajectoryDataset otherwise."""
    if not _NAME.fullmatch(name):
        raise InvalidTrajectoryDataset(name)
    return name
