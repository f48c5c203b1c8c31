"""Jobs on a real SQLite file, a learner that answers from a script, and clocks that stand."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gateway.bulk.database import JobsDatabase
from gateway.bulk.jobs import Jobs, Room
from gateway.bulk.learner import BatchLearner, Patience
from gateway.bulk.progress import Progress
from gateway.bulk.submission import received
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import bulk_service_pb2 as service
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from libs.sql.engines import url_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLENTY = Room(1000, 10_000_000)
AT_ONCE = Patience(attempts=3, base=1e-6, longest=1e-6)
Answer = gateway.LearnResponse | Exception


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class Book:
    """Learns as a curator would: once per `request_id`. `answers` come first, in order; then every run is saved."""

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.committed: dict[str, gateway.LearnResponse] = {}
        self.before: Callable[[], None] = lambda: None

    async def learn(self, request: gateway.LearnRequest) -> gateway.LearnResponse:
        self.asked.append(request.request_id)
        self.before()
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return self.committed.setdefault(request.request_id, saved(revision=len(self.committed) + 1))


def saved(revision: int = 1, edits: int = 1, votes: int = 0) -> gateway.LearnResponse:
    curation = curator.CurateResponse(
        saved=True,
        revision=revision,
        operations=[playbook.Operation(applied=True)] * edits + [playbook.Operation(applied=False)],
        votes=[playbook.VoteOutcome(applied=True)] * votes,
    )
    return gateway.LearnResponse(curation=curation)


class Desk:
    """Jobs and their progress in one database."""

    def __init__(self, folder: Path, room: Room = PLENTY, spread: int = 2) -> None:
        self.clock = Clock()
        self.database = JobsDatabase(url_of(str(folder / "gateway.db")))
        self.jobs = Jobs(self.database, room, self.clock)
        self.progress = Progress(self.database, spread, self.clock)

    async def submit(self, count: int, job_id: str = "", size: int = 40) -> tuple[str, str]:
        """Id and key of a new job."""
        found, key = await received(self.jobs, messages(count, job_id or str(uuid.uuid4()), size))
        return found, key or ""

    async def learn(self, key: str, book: Book, patience: Patience = AT_ONCE) -> BatchLearner:
        """Learn all batches of a job, one after the other."""
        learner = BatchLearner(book, self.progress, patience, share=lambda: 0.0)
        for batch in await self.progress.batches(key):
            await learner.run(batch)
        return learner


def item(number: int, dataset: str = "d") -> bulk.QueuedTrajectory:
    return bulk.QueuedTrajectory(
        trajectory=trajectory.Trajectory(id=f"t{number}", dataset=dataset, query="q"), ground_truth="42"
    )


async def messages(
    count: int, job_id: str, size: int = 40, items: Sequence[bulk.QueuedTrajectory] | None = None
) -> AsyncIterator[service.SubmitTrajectoriesRequest]:
    yield service.SubmitTrajectoriesRequest(head=service.JobHead(request_id=job_id, dataset="d", max_iterations=2))
    whole = items if items is not None else [item(number) for number in range(count)]
    for start in range(0, len(whole), size):
        batch = service.TrajectoryBatch(trajectories=whole[start : start + size])
        yield service.SubmitTrajectoriesRequest(batch=batch)
