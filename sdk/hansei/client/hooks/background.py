"""Start the process that learns from a transcript, detached from the agent."""

from __future__ import annotations

import json
import subprocess
import sys

from hansei.client.hooks.servings import find_hook_directory

LOG = "learn.log"


def start_learner(**task: object) -> None:
    """Start a process for a task of `hansei.client.hooks.learner`; it writes to `hooks/learn.log`."""
    detached = 0x00000208 if sys.platform == "win32" else 0  # DETACHED_PROCESS, CREATE_NEW_PROCESS_GROUP
    with (find_hook_directory() / LOG).open("ab") as log:
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "hansei.client.hooks.learner", json.dumps(task)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            creationflags=detached,
        )
