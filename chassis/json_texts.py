"""Texts of JSON values."""

from __future__ import annotations

import json
from typing import Any


def format_as_text(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON, in which an object of Python is its `str`."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
