"""The stack that a command runs in its own process: `hansei up`, `hansei demo`, and commands with `--local`."""

from __future__ import annotations

import os
from pathlib import Path

OFFLINE = "offline"


def provider() -> str:
    """The provider of chat models that a stack started here uses: what the environment names, else none (`offline`)."""
    return os.environ.get("HANSEI_LLM_PROVIDER") or os.environ.get("LLM_PROVIDER") or OFFLINE


def beside_output() -> dict[str, str]:
    """Settings for a stack beside a command's own output: only what is wrong is logged."""
    return {
        "HANSEI_LLM_PROVIDER": provider(),
        "HANSEI_LOG_LEVEL": os.environ.get("HANSEI_LOG_LEVEL", "WARNING"),
        "HANSEI_LOG_FORMAT": os.environ.get("HANSEI_LOG_FORMAT", "console"),
    }


def throwaway(directory: Path) -> dict[str, str]:
    """Settings for an offline stack that keeps everything in `directory`, whatever the environment says."""
    return beside_output() | {
        "HANSEI_LLM_PROVIDER": OFFLINE,
        "HANSEI_DATA_DIR": str(directory),
        "HANSEI_PLAYBOOK_DATA_DIR": str(directory / "playbooks"),
        "HANSEI_LEADERBOARD_DB": str(directory / "leaderboard.db"),
        "HANSEI_SEARCH_DB": str(directory / "search.db"),
        "HANSEI_HTTP_ADDRESS": "",
        "HANSEI_METRICS_ADDRESS": "",
    }
