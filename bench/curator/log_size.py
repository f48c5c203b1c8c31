"""Measure the size of a revision in the log, and the time of a comparison over a long one.

`python -m bench.curator.log_size [REVISIONS]` commits REVISIONS revisions (5,000) to a playbook of 500 bullets of 300
characters in an SQLite file: each votes on five bullets and rewords one. It prints the bytes of the file for each
revision, before and after all but a tenth of the revisions are dropped, and the milliseconds of reads of the log.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import DeltaContextItem, Proposal, Vote
from services.curator.domain.log import Origin, RevisionKind
from services.curator.usecases.commit import EditBatch, commit

BULLETS = 500
VOTES = 5
TEXT = "Before call {0} of the orders API: look up the page with the newest token, or the call fails. " * 3


class Clock:
    """A clock that a test sets."""

    now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


async def write_log(store: SqlPlaybookStore, clock: Clock, revisions: int) -> None:
    """Commit the bullets as one revision, then one revision a minute."""
    deltas = [Proposal(DeltaContextItem(type="ADD", section="s", content=TEXT.format(n), reasoning="why"))
              for n in range(BULLETS)]  # fmt: skip
    await store.write("d", lambda transaction: commit(transaction, EditBatch(_origin(0), deltas)))
    for number in range(1, revisions):
        clock.now += timedelta(minutes=1)
        ids = [f"s-{(number * VOTES + offset) % BULLETS + 1:05}" for offset in range(VOTES)]
        votes = [Vote(bullet_id, "helpful", f"trajectory-{number}", 0, "it was cited") for bullet_id in ids]
        content = TEXT.format(f"{ids[0]}, version {number}")
        delta = DeltaContextItem(type="UPDATE", section="s", bullet_id=ids[0], content=content, reasoning="better")
        batch = EditBatch(_origin(number), [Proposal(delta)], votes)
        await store.write("d", lambda transaction, batch=batch: commit(transaction, batch))  # type: ignore[misc]


def _origin(number: int) -> Origin:
    return Origin(RevisionKind.CURATE, "curator", "a task", source_trajectory=f"trajectory-{number}", model="offline")


async def time_call(call: Callable[[], Awaitable[object]]) -> float:
    """Return the milliseconds of the fastest of three calls."""
    found = []
    for _ in range(3):
        began = time.perf_counter()
        await call()
        found.append((time.perf_counter() - began) * 1_000)
    return min(found)


async def main(revisions: int) -> None:
    """Print the sizes and the times."""
    with tempfile.TemporaryDirectory() as folder:
        file, clock = Path(folder) / "playbooks.db", Clock()
        store = SqlPlaybookStore(f"sqlite:///{file}", clock=clock)
        await store.open()
        await write_log(store, clock, revisions)
        await store.database.vacuum()
        print(f"{file.stat().st_size / revisions:,.0f} bytes a revision, {revisions:,} revisions")
        for low, high in ((revisions - 100, revisions), (revisions // 2, revisions)):
            changes = await time_call(lambda low=low, high=high: store.list_revisions_after("d", low, high - low))  # type: ignore[misc]
            print(f"{changes:,.0f} ms for {high - low:,} revisions with their changes")
        print(f"{await time_call(lambda: store.load('d', revisions // 2)):,.0f} ms for the snapshot in the middle")
        print(f"{await time_call(lambda: store.list_revisions('d', None, 50)):,.0f} ms for 50 revisions of the history")
        if hasattr(store, "drop_old_revisions"):
            dropped = await store.drop_old_revisions(timedelta(minutes=revisions // 10))
            await store.database.vacuum()
            print(f"{file.stat().st_size / revisions:,.0f} bytes for each after {dropped:,} were dropped")
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000))
