"""Jobs on a real SQLite file, a learner that answers from a script, and clocks that stand."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from chassis.retry import RetryPolicy
from gateway.bulk.adapters.sql.batch_repository import BatchRepository, ReplicaLeases
from gateway.bulk.adapters.sql.repository import JobRepository
from gateway.bulk.adapters.sql.schema import MIGRATIONS
from gateway.bulk.domain.job import Job, QueueCapacity
from gateway.bulk.usecases.learn_batches import BatchLearner
from gateway.bulk.usecases.submit_job import submit_job
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import bulk_service_pb2 as service
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from libs.storage.database import Database
from libs.storage.idempotency import IdempotencyKey

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLENTY = QueueCapacity(1000, 10_000_000)
AT_ONCE = RetryPolicy(3, first_pause=1e-6, longest_pause=1e-6)
Answer = gateway.LearnResponse | Exception


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class ScriptedLearner:
    """Learns as a curator would: once per `request_id`. `answers` come first, in order; then every run is saved."""

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self.answers = list(answers)
        self.requests: list[gateway.LearnRequest] = []
        self.committed: dict[str, gateway.LearnResponse] = {}
        self.before: Callable[[], None] = lambda: None

    async def learn(self, request: gateway.LearnRequest) -> gateway.LearnResponse:
        self.requests.append(request)
        self.before()
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return self.committed.setdefault(request.request_id, learn_response(revision=len(self.committed) + 1))


def learn_response(revision: int = 1, edits: int = 1, votes: int = 0) -> gateway.LearnResponse:
    curation = curator.CurateResponse(
        saved=True,
        revision=revision,
        operations=[playbook.Operation(applied=True)] * edits + [playbook.Operation(applied=False)],
        votes=[playbook.VoteOutcome(applied=True)] * votes,
    )
    return gateway.LearnResponse(curation=curation)


class BulkSystem:
    """Jobs, their batches and replicas in one database."""

    def __init__(self, folder: Path, capacity: QueueCapacity = PLENTY, spread: int = 2) -> None:
        self.clock = Clock()
        self.database = Database(str(folder / "gateway.db"), MIGRATIONS, service="gateway", store="job store")
        self.jobs = JobRepository(self.database, capacity, self.clock)
        self.batches = BatchRepository(self.database, spread, self.clock)

    def replica(self, executor: str) -> ReplicaLeases:
        """Return the lease of a replica."""
        return ReplicaLeases(self.database, executor, self.clock)

    async def cancel(self, job_id: str, request_id: str = "") -> Job:
        """Cancel a job, by default under an id of its own."""
        return await self.jobs.cancel(job_id, change_key("CancelJob", job_id, request_id))

    async def retry(self, job_id: str, request_id: str) -> Job:
        """Retry the dead letters of a job."""
        return await self.jobs.retry(job_id, change_key("RetryDeadLetters", job_id, request_id))

    async def submit(self, count: int, job_id: str = "", size: int = 40, dataset: str = "d") -> tuple[str, str]:
        """Id and key of a new job."""
        submission = messages(count, job_id or str(uuid.uuid4()), size, dataset=dataset)
        found, key = await submit_job(self.jobs, submission)
        return found, key or ""

    async def learn(self, key: str, book: ScriptedLearner, policy: RetryPolicy = AT_ONCE) -> BatchLearner:
        """Learn all batches of a job, one after the other."""
        learner = BatchLearner(book, self.batches, policy, jitter=lambda: 0.0)
        for batch in await self.batches.list_batches(key):
            await learner.run(batch)
        return learner


def change_key(method: str, job_id: str, request_id: str = "") -> IdempotencyKey:
    return IdempotencyKey(request_id or str(uuid.uuid4()), method, job_id.encode())


def item(number: int, dataset: str = "d") -> bulk.QueuedTrajectory:
    return bulk.QueuedTrajectory(
        trajectory=trajectory.Trajectory(id=f"t{number}", dataset=dataset, query="q"), ground_truth="42"
    )


async def messages(
    count: int,
    job_id: str,
    size: int = 40,
    items: Sequence[bulk.QueuedTrajectory] | None = None,
    dataset: str = "d",
) -> AsyncIterator[service.SubmitTrajectoriesRequest]:
    yield service.SubmitTrajectoriesRequest(head=service.JobHead(request_id=job_id, dataset=dataset, max_iterations=2))
    whole = items if items is not None else [item(number, dataset) for number in range(count)]
    for start in range(0, len(whole), size):
        batch = service.TrajectoryBatch(trajectories=whole[start : start + size])
        yield service.SubmitTrajectoriesRequest(batch=batch)
