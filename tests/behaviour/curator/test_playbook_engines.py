"""The store under writers in many processes, kills and a database that goes away, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from libs.storage.errors import StoreUnavailable
from services.curator.adapters.feed import RevisionFeed
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import Vote
from services.curator.domain.log import Origin, Revision, RevisionKind, fold
from services.curator.tests.playbook_machine import PlaybookMachine
from services.curator.usecases.commit import CommitResult, EditBatch, commit
from tests.support.campaigns import campaign_size
from tests.support.playbook_worker import DATASET, OPERATIONS_PER_REQUEST, delta
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
WRITERS = 8
OPERATIONS = campaign_size(10_240, 960)
"""At the full size no fewer than the 10,000 that are asked for."""
REQUESTS_PER_WRITER = OPERATIONS // WRITERS // OPERATIONS_PER_REQUEST
ROUNDS_OF_KILLS = {"sqlite": campaign_size(2, 1), "postgresql": 1}
"""Each has a kill at every step of every kind of edit."""
KILLS_PER_ROUND = 60
SEQUENCES = campaign_size(10, 3)
MANY_SECONDS = 600


@pytest.fixture
def url(database_location: str) -> str:
    """Return an empty database."""
    return database_location if database_location.startswith("postgresql") else f"sqlite:///{database_location}"


async def write(store: SqlPlaybookStore, batch: EditBatch) -> CommitResult:
    return await store.write(DATASET, lambda transaction: commit(transaction, batch))


def worker(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.playbook_worker", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@dataclass
class SequentialModel:
    """Apply the changes of the log one after the other: bullets by id in order, with their votes."""

    texts: dict[str, str] = field(default_factory=dict)
    votes: dict[str, list[str]] = field(default_factory=dict)

    def do(self, revision: Revision) -> None:
        for vote in revision.votes:
            if vote.applied:
                self.votes[vote.vote.bullet_id].append(vote.vote.tag)
        for operation in revision.operations:
            if not operation.applied:
                continue
            name, kind = operation.bullet_id, operation.delta.type
            if kind == "DELETE":
                del self.texts[name], self.votes[name]
                continue
            assert (name in self.texts) == (kind == "UPDATE")
            self.texts[name] = operation.delta.content
            self.votes.setdefault(name, [])

    @property
    def bullets_with_votes(self) -> list[tuple[str, str, int, int]]:
        return [
            (name, text, self.votes[name].count("helpful"), self.votes[name].count("harmful"))
            for name, text in self.texts.items()
        ]


async def test_many_processes_lose_nothing_and_double_nothing(url: str) -> None:  # C-23, ideas 2 to 4
    store = SqlPlaybookStore(url)
    await store.open()
    writers = worker("stress", url, str(WRITERS), str(REQUESTS_PER_WRITER))
    output, errors = await asyncio.to_thread(writers.communicate, None, MANY_SECONDS)
    assert writers.returncode == 0, errors
    answers = [json.loads(line) for line in output.splitlines()]
    assert len(answers) * OPERATIONS_PER_REQUEST == OPERATIONS
    assert all(len(answer) == 2 for answer in answers), "a repeated request got another answer"
    head = (await store.load(DATASET)).revision
    revisions: list[Revision] = []
    while len(revisions) < head:
        revisions += await store.list_revisions_after(DATASET, len(revisions), 500)
    logged = {revision.origin.request_id: revision for revision in revisions}
    assert [revision.number for revision in revisions] == list(range(1, head + 1))
    assert len(logged) == head
    for request_id, (number, operations, votes) in answers:
        if not any(operations) and not any(votes):
            assert request_id not in logged
            continue
        revision = logged[request_id]
        assert revision.number == number
        assert [operation.applied for operation in revision.operations] == operations
        assert [vote.applied for vote in revision.votes] == votes
    model = SequentialModel()
    for revision in revisions:
        model.do(revision)
    snapshot = await store.load(DATASET)
    assert [
        (bullet.id, bullet.content, bullet.helpful, bullet.harmful) for bullet in snapshot.bullet_list
    ] == model.bullets_with_votes
    whole_log = await store.list_revisions_after(DATASET, 0, head)
    assert fold(change for revision in whole_log for change in revision.changes) == dict(snapshot.slots)
    await store.close()


def test_a_kill_at_any_step_leaves_the_old_or_the_new_revision(url: str) -> None:  # C-18, C-83, idea 3
    rounds = ROUNDS_OF_KILLS[url.partition("://")[0]]
    output, errors = worker("crash", url, str(rounds)).communicate(None, MANY_SECONDS)
    assert output, errors
    assert json.loads(output)["kills"] >= rounds * KILLS_PER_ROUND


def test_any_sequence_of_edits_on_postgresql(postgres: PostgresServer) -> None:  # ideas 1 to 4
    url = postgres.database()

    class OnPostgres(PlaybookMachine):
        def new_store(self) -> SqlPlaybookStore:
            return SqlPlaybookStore(url)

    run_state_machine_as_test(
        OnPostgres,
        settings=settings(
            max_examples=SEQUENCES, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


async def test_a_database_outage_ends_without_a_restart(lone_postgres: PostgresServer) -> None:
    store = SqlPlaybookStore(lone_postgres.database())
    await store.open()
    await write(store, EditBatch(Origin(RevisionKind.APPLY, "me"), [delta("ADD", "one")]))
    lone_postgres.stop()
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await write(store, EditBatch(Origin(RevisionKind.APPLY, "me"), [delta("ADD", "two")]))
    with pytest.raises(StoreUnavailable):
        await store.list_revisions(DATASET, None, 10)
    lone_postgres.start()
    done = await write(store, EditBatch(Origin(RevisionKind.APPLY, "me"), votes=[Vote("gene-00001", "helpful", "run")]))
    assert done.revision == 2
    assert [bullet.helpful for bullet in (await store.load(DATASET)).bullet_list] == [1]
    await store.close()


async def test_postgresql_notifies_of_other_processes_commits(postgres: PostgresServer) -> None:
    url = postgres.database()
    writer, watcher = SqlPlaybookStore(url), SqlPlaybookStore(url)
    await writer.open()
    await watcher.open()
    feed = RevisionFeed(watcher, poll_seconds=3600)
    listening = asyncio.create_task(watcher.listen(feed.advance))
    seen = 0
    while not seen:
        # The first commits may precede the listener.
        await write(
            writer,
            EditBatch(
                Origin(RevisionKind.APPLY, "me"), [delta("ADD", f"lesson {(await writer.load(DATASET)).revision}")]
            ),
        )
        seen = await feed.wait(DATASET, 0, seconds=0.2)
    head = (await writer.load(DATASET)).revision
    waiting = asyncio.create_task(feed.wait(DATASET, head, seconds=60))
    await write(writer, EditBatch(Origin(RevisionKind.APPLY, "me"), [delta("ADD", "the last")]))
    assert await waiting
    assert [revision.number for revision in await feed.list_revisions_after(DATASET, head)] == [head + 1]
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await writer.close()
    await watcher.close()


def test_the_password_of_a_database_is_never_shown() -> None:
    store = SqlPlaybookStore("postgresql://hansei:secret@localhost:1/x")
    assert "secret" not in store.name
