"""The rule for dataset names (C-13), which also choose a template file (R-29)."""

from __future__ import annotations

import re

from services.reflector.domain.errors import InvalidDatasetName

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def check_dataset(name: str) -> str:
    """`name` itself if it is a dataset name (C-13); raises InvalidDatasetName otherwise."""
    if not _NAME.fullmatch(name):
        raise InvalidDatasetName(name)
    return name
