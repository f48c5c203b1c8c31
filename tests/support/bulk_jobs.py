"""Bulk learning jobs of tests and benchmarks: short trajectories, each with a lesson of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import bulk_service_pb2 as service
from hansei.gateway.v1 import bulk_service_pb2_grpc as stubs
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from hansei.reflector.v1 import trajectory_pb2 as trajectory

SECONDS = 120
BATCH = 100


def build_trajectory(dataset: str, number: int, lessons: int = 40) -> trajectory.Trajectory:
    """Return a failed trajectory with one tool call; the first `lessons` teach something new, the others repeat it."""
    tool = f"tool{number % lessons}"
    call = trajectory.ToolCall(id="1", name=tool, arguments=f'{{"number": {number}}}')
    content = f"exit code 1\nfatal: no such thing: {number}"
    return trajectory.Trajectory(
        id=f"{dataset}-{number}",
        dataset=dataset,
        query=f"Do task {number}",
        status=trajectory.TRAJECTORY_STATUS_FAILURE,
        reward=0.0,  # a trusted signal: quotations of tools are learned at once
        generated_answer="It did not work.",
        steps=[
            trajectory.Step(role=trajectory.STEP_ROLE_ASSISTANT, tool_calls=[call]),
            trajectory.Step(role=trajectory.STEP_ROLE_TOOL, name=tool, tool_call_id="1", content=content),
        ],
    )


def build_trajectories(dataset: str, count: int) -> list[trajectory.Trajectory]:
    return [build_trajectory(dataset, number) for number in range(count)]


@dataclass(frozen=True)
class Jobs:
    """Client of the jobs at an address."""

    stub: Any
    playbooks: Any

    def submit(self, dataset: str, trajectories: Sequence[trajectory.Trajectory], job_id: str = "") -> bulk.Job:
        """Submit a job; without `job_id` it gets a new id."""
        return self.send(parts(dataset, trajectories, job_id or str(uuid.uuid4())))

    def send(self, messages: Iterator[service.SubmitTrajectoriesRequest]) -> bulk.Job:
        return self.stub.SubmitTrajectories(messages, timeout=SECONDS).job  # type: ignore[no-any-return]

    def get(self, job_id: str) -> bulk.Job:
        return self.stub.GetJob(service.GetJobRequest(job_id=job_id), timeout=SECONDS).job  # type: ignore[no-any-return]

    def watch(self, job_id: str, seconds: float = SECONDS) -> Iterator[bulk.Job]:
        for event in self.stub.WatchJob(service.WatchJobRequest(job_id=job_id), timeout=seconds):
            yield event.job

    def until_learned(self, job_id: str, count: int) -> bulk.Job:
        """Return the job as soon as `count` of its trajectories were learned or it has ended."""
        for job in self.watch(job_id):
            if job.learned >= count:
                break
        return job

    def until_ended(self, job_id: str) -> bulk.Job:
        return list(self.watch(job_id))[-1]

    def dead_letters(self, job_id: str, size: int = 500, token: str = "") -> service.ListDeadLettersResponse:
        request = service.ListDeadLettersRequest(job_id=job_id, page_size=size, page_token=token)
        return self.stub.ListDeadLetters(request, timeout=SECONDS)  # type: ignore[no-any-return]

    def retry(self, job_id: str, request_id: str = "") -> bulk.Job:
        request = service.RetryDeadLettersRequest(job_id=job_id, request_id=request_id or str(uuid.uuid4()))
        return self.stub.RetryDeadLetters(request, timeout=SECONDS).job  # type: ignore[no-any-return]

    def cancel(self, job_id: str, request_id: str = "") -> bulk.Job:
        request = service.CancelJobRequest(job_id=job_id, request_id=request_id or str(uuid.uuid4()))
        return self.stub.CancelJob(request, timeout=SECONDS).job  # type: ignore[no-any-return]

    def sources(self, dataset: str) -> list[str]:
        """Return the trajectory of every curation in a playbook's log, with repetitions."""
        found, token = [], ""
        while True:
            request = playbook_service_pb2.GetHistoryRequest(dataset=dataset, page_size=200, page_token=token)
            page = self.playbooks.GetHistory(request, timeout=SECONDS)
            found += [
                revision.source_trajectory
                for revision in page.revisions
                if revision.kind == playbook.REVISION_KIND_CURATE
            ]
            token = page.next_page_token
            if not token:
                return found


def parts(
    dataset: str, trajectories: Sequence[trajectory.Trajectory], job_id: str
) -> Iterator[service.SubmitTrajectoriesRequest]:
    """Yield the messages of a submission."""
    yield service.SubmitTrajectoriesRequest(head=service.JobHead(request_id=job_id, dataset=dataset))
    for start in range(0, len(trajectories), BATCH):
        items = [bulk.QueuedTrajectory(trajectory=item) for item in trajectories[start : start + BATCH]]
        yield service.SubmitTrajectoriesRequest(batch=service.TrajectoryBatch(trajectories=items))


@contextmanager
def jobs_at(address: str) -> Iterator[Jobs]:
    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield Jobs(stubs.BulkServiceStub(channel), playbook_service_pb2_grpc.PlaybookServiceStub(channel))
