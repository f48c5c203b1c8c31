"""The servings of sessions, from their prompts until their outcomes are reported: a small file for each session."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hansei.client.data_directory import find_data_directory

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def find_hook_directory() -> Path:
    """Return the directory with the state and the log of hooks; it exists."""
    directory = find_data_directory() / "hooks"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def store_serving(session: str, dataset: str, serving_id: str) -> None:
    """Store the serving of a session; it is the same at each of its prompts."""
    file = _find_file(session)
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"dataset": dataset, "serving_id": serving_id}), encoding="utf-8")


def take_serving(session: str) -> tuple[str, str] | None:
    """Return dataset and serving of a session, and forget them; None if nothing is measured."""
    file = _find_file(session)
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        file.unlink()
        return stored["dataset"], stored["serving_id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _find_file(session: str) -> Path:
    return find_hook_directory() / "servings" / f"{_NOT_IN_NAMES.sub('_', session)[:128]}.json"
