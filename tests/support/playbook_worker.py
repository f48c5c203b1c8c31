"""Processes that write playbooks for the tests of concurrency and crashes: `python -m tests.support.playbook_worker`.

It imports no gRPC, so that it may fork.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy import event

from libs.storage.idempotency import IdempotencyKey
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import DeltaContextItem, DeltaType, Proposal, Vote, VoteTag
from services.curator.domain.log import Origin, RevisionKind, fold
from services.curator.domain.playbook import Playbook
from services.curator.usecases.commit import EditBatch, commit, run_once
from services.curator.usecases.ports import DatasetTransaction
from services.curator.usecases.restore import restore
from services.curator.usecases.transfer import import_playbook

DATASET = "shared"
TASKS = 4
PARENT = os.getpid()
OPERATIONS_PER_REQUEST = 10


def delta(kind: DeltaType, content: str, bullet_id: str | None = None) -> Proposal:
    return Proposal(DeltaContextItem(type=kind, section="general", bullet_id=bullet_id, content=content, reasoning=""))


def stress_from_many(url: str, writers: int, requests: int) -> int:
    """Run `stress` in `writers` processes, and return the number of those that failed."""
    children = [os.fork() for _ in range(writers) if os.getpid() == PARENT]
    if os.getpid() == PARENT:
        return sum(os.waitpid(child, 0)[1] != 0 for child in children)
    failed = 1
    try:
        asyncio.run(stress(url, str(os.getpid()), requests))
        failed = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(failed)


async def stress(url: str, name: str, requests: int) -> None:
    """Send requests from several tasks, some of them twice; print the responses, one JSON line a request."""
    store = SqlPlaybookStore(url)
    await store.open()

    async def send_requests(number: int) -> None:
        dice = random.Random(f"{name}.{number}")
        for index in range(requests // TASKS):
            await _request(store, dice, f"{name}.{number}.{index}")

    await asyncio.gather(*(send_requests(number) for number in range(TASKS)))
    await store.close()


async def _request(store: SqlPlaybookStore, dice: random.Random, request_id: str) -> None:
    snapshot = await store.load(DATASET)
    ids = [bullet.id for bullet in snapshot.bullet_list]
    proposals: list[Proposal] = []
    votes: list[Vote] = []
    for number in range(OPERATIONS_PER_REQUEST):
        choice = dice.random()
        if not ids or choice < 0.3:
            proposals.append(delta("ADD", f"lesson {request_id}.{number}"))
        elif choice < 0.5:
            proposals.append(delta("UPDATE", f"better {request_id}.{number}", dice.choice(ids)))
        elif choice < 0.6:
            proposals.append(delta("DELETE", "", dice.choice(ids)))
        else:
            tag: VoteTag = dice.choice(["helpful", "harmful"])
            votes.append(Vote(dice.choice(ids), tag, f"run-{dice.randrange(50)}", dice.randrange(3)))
    batch = EditBatch(
        Origin(RevisionKind.APPLY, "stress", request_id=request_id), proposals, votes, base_revision=snapshot.revision
    )

    def commit_delta(transaction: DatasetTransaction) -> bytes:
        done = commit(transaction, batch)
        flags = [result.applied for result in done.operations], [result.applied for result in done.votes]
        return json.dumps([done.revision, *flags]).encode()

    key = IdempotencyKey(request_id, "ApplyDeltas", b"")
    answers = {await store.write(DATASET, run_once(key, commit_delta)) for _ in range(1 + (dice.random() < 0.2))}
    # One write call, because several processes share the pipe.
    os.write(1, (json.dumps([request_id, *(json.loads(answer) for answer in answers)]) + "\n").encode())


Job = Callable[[DatasetTransaction], Any]
PLAYBOOK = "## A\n"


def _edit(transaction: DatasetTransaction) -> None:
    first = transaction.list_bullets()[0].bullet.id
    votes = [Vote(first, "helpful", f"run-{transaction.revision}")]
    proposals = [delta("ADD", f"new {transaction.revision}"), delta("UPDATE", f"better {transaction.revision}", first)]
    commit(transaction, EditBatch(Origin(RevisionKind.APPLY, "crash"), proposals, votes))


def _remove(transaction: DatasetTransaction) -> None:
    last = transaction.list_bullets()[-1].bullet.id
    commit(
        transaction,
        EditBatch(
            Origin(RevisionKind.APPLY, "crash"), [delta("DELETE", "", last), delta("ADD", f"n {transaction.revision}")]
        ),
    )


def _restore(transaction: DatasetTransaction) -> None:
    restore(transaction, max(1, transaction.revision - 3), Origin(RevisionKind.RESTORE, "crash"))


def _import(transaction: DatasetTransaction) -> None:
    bullets = [
        entry.bullet.replace_fields(content=f"{transaction.revision} {entry.slot}")
        for entry in transaction.list_bullets()
    ]
    import_playbook(
        transaction, Playbook(bullets=bullets), Origin(RevisionKind.IMPORT, "crash", request_id="i"), replace=True
    )


JOBS: dict[str, Job] = {"edit": _edit, "remove": _remove, "restore": _restore, "import": _import}


def return_revision(job: Job) -> Callable[[DatasetTransaction], bytes]:
    def read_revision(transaction: DatasetTransaction) -> bytes:
        job(transaction)
        return b"revision %d" % transaction.revision

    return read_revision


def crash(url: str, rounds: int) -> None:
    """Kills a process at every statement of a commit, before COMMIT and after it, for every kind of job; prints how
    often. After each kill the old or the new revision stands, and the same request completes it exactly once."""
    revision = asyncio.run(_prepare(url))
    kills = 0
    for number in range(rounds):
        for name, job in JOBS.items():
            point = 0
            alive = False
            while not alive:
                key = IdempotencyKey(f"{number}.{name}.{point}", "ApplyDeltas", b"")
                alive = not _is_killed(url, key, job, point)
                revision = asyncio.run(_complete(url, key, job, revision))
                kills += not alive
                point += 1
    print(json.dumps({"kills": kills}))


async def _prepare(url: str) -> int:
    store = SqlPlaybookStore(url)
    await store.open()
    batch = EditBatch(Origin(RevisionKind.APPLY, "crash"), [delta("ADD", f"lesson {number}") for number in range(4)])
    await store.write(DATASET, partial(commit, batch=batch))
    await store.close()
    return 1


def _is_killed(url: str, key: IdempotencyKey, job: Job, point: int) -> bool:
    """Run the request in a process that is killed at its `point`-th step; False when it has fewer."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(_run_until_killed(url, key, job, point))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


async def _run_until_killed(url: str, key: IdempotencyKey, job: Job, point: int) -> None:
    steps = [0]

    def count_or_die(*_: object) -> None:
        if steps[0] == point:
            os.kill(os.getpid(), signal.SIGKILL)
        steps[0] += 1

    store = SqlPlaybookStore(url, on_commit=count_or_die)
    await store.open()
    event.listen(store.database.write_engine, "before_cursor_execute", count_or_die)
    event.listen(store.database.write_engine, "commit", count_or_die)
    await store.write(DATASET, run_once(key, return_revision(job)))
    await store.close()


async def _complete(url: str, key: IdempotencyKey, job: Job, before: int) -> int:
    """Check the state after the kill, send the request again, and check that it is done once."""
    store = SqlPlaybookStore(url)
    await store.open()
    left = await _check(store)
    assert left in (before, before + 1), (key, before, left)
    answer = await store.write(DATASET, run_once(key, return_revision(job)))
    assert answer == b"revision %d" % (before + 1), (key, before, answer)
    assert await _check(store) == before + 1, key
    await store.close()
    return before + 1


async def _check(store: SqlPlaybookStore) -> int:
    """The newest revision, after comparing the bullets with the fold of the log."""
    snapshot = await store.load(DATASET)
    revisions = await store.list_revisions_after(DATASET, 0, snapshot.revision)
    folded = fold(change for revision in revisions for change in revision.changes)
    assert folded == dict(snapshot.slots)
    return snapshot.revision


if __name__ == "__main__":
    mode, database_url, *rest = sys.argv[1:]
    if mode == "stress":
        raise SystemExit(stress_from_many(database_url, int(rest[0]), int(rest[1])))
    crash(database_url, int(rest[0]))
