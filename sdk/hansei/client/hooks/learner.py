"""Learn from the transcript of a session that ended: `python -m hansei.client.hooks.learner '{…}'`.

A hook starts this process and does not wait for it. Secrets are masked before anything is sent.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hansei.client.hooks.servings import take_serving

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.client.trajectories import TrajectoryRecord

QUIET_SECONDS = 60.0
"""A session that is not over is learned when its transcript did not change for so long."""
MAX_SESSION_CHARS = 256
"""The part of a session's id by which the gateway checks its calls."""


@dataclass(frozen=True)
class LearnTask:
    """A session to learn from. `is_over` is False if it stopped and may continue."""

    agent: str
    session: str
    transcript: str
    dataset: str
    address: str
    is_over: bool


def main() -> None:
    """Learn from one session, and write one line for each trajectory."""
    task = LearnTask(**json.loads(sys.argv[1]))
    transcript = find_transcript(task)
    if transcript is None:
        _log(task, f"has no transcript: {task.transcript or 'the agent names none'}")
    elif task.is_over or wait_until_quiet(transcript, time.sleep):
        learn_session(task, transcript)


def find_transcript(task: LearnTask) -> Path | None:
    """Return the transcript of a session; Cursor's command line does not name it."""
    if task.transcript:
        named = Path(task.transcript).expanduser()
        return named if named.is_file() else None
    if task.agent != "cursor" or not task.session or not set(task.session).isdisjoint("/\\*?["):
        return None
    projects = Path.home() / ".cursor/projects"
    folder = "*/agent-transcripts"
    patterns = (f"{folder}/{task.session}.jsonl", f"{folder}/{task.session}/{task.session}.jsonl")
    return next((file for pattern in patterns for file in sorted(projects.glob(pattern))), None)


def wait_until_quiet(transcript: Path, sleep: Callable[[float], None]) -> bool:
    """Return whether the transcript did not change while this process waited; another one learns a changed one."""
    before = transcript.stat()
    sleep(QUIET_SECONDS)
    after = transcript.stat()
    return (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def learn_session(task: LearnTask, transcript: Path) -> None:
    """Learn from the trajectories of a session, and report its outcome if bullets were served to it."""
    from hansei.client.cli.options import connect_or_embed
    from hansei.client.learning import learn_all

    with connect_or_embed(task.address or None, local=False) as client:
        records = list(_read_records(client, task, transcript))
        for outcome in learn_all(client, records):
            _log(task, f"{outcome.record.source}: {outcome.failure or 'learned'}")
        report_outcome(client, task, records)


def _read_records(client: Client, task: LearnTask, transcript: Path) -> Iterator[TrajectoryRecord]:
    """Yield the trajectories of a transcript and of its sub-agents."""
    from hansei.client.masking import SecretMask, mask_content
    from hansei.client.trajectories import TrajectoryRecord
    from hansei.client.trajectory_files import read_trajectories

    mask = SecretMask(os.environ, ())
    for file in [transcript, *sorted(transcript.with_suffix("").glob("subagents/**/*.jsonl"))]:
        content = mask_content(mask, file.read_bytes())
        for part in read_trajectories(client, str(file), content, task.dataset):
            if isinstance(part, TrajectoryRecord):
                yield part
            else:
                _log(task, f"{part.source}: {part.error.message}")


def report_outcome(client: Client, task: LearnTask, records: Sequence[TrajectoryRecord]) -> None:
    """Report a session whose transcript shows how it ended, for the guards that fired in it and for its serving.

    Any other session that is over counts as missing; its serving is forgotten, too.
    """
    from hansei.reflector.v1.trajectory_pb2 import TRAJECTORY_STATUS_FAILURE

    if not task.is_over:
        return
    serving = take_serving(task.session)
    if not records:
        return
    has_failed = records[0].trajectory.status == TRAJECTORY_STATUS_FAILURE
    if not has_failed and not records[0].test_report:
        return
    outcome = "failure" if has_failed else "success"
    if task.session:
        session = client.guards.report_session(
            dataset=task.dataset, session_id=task.session[:MAX_SESSION_CHARS], succeeded=not has_failed
        )
        if session.firings:
            _log(task, f"reported {outcome} for {session.firings} firings of guards")
    if serving:
        dataset, serving_id = serving
        client.evidence.report_outcome(dataset=dataset, serving_id=serving_id, succeeded=not has_failed)
        _log(task, f"reported {outcome} of serving {serving_id}")


def _log(task: LearnTask, message: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {task.agent} {task.session}: {message}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
