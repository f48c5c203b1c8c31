"""BulkService: jobs of bulk learning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Any

from chassis.idempotency import normalize_request_id
from chassis.server.messages import encode
from gateway.bulk.usecases.maintain_jobs import BulkLearning
from gateway.bulk.usecases.ports import JobStore
from hansei.gateway.v1 import bulk_pb2
from hansei.gateway.v1 import bulk_service_pb2 as service
from hansei.gateway.v1 import bulk_service_pb2_grpc as grpc_bulk
from libs.storage.idempotency import IdempotencyKey
from libs.storage.page_tokens import decode_page_token, encode_page_token

DEFAULT_PAGE_SIZE = 50


class BulkServicer(grpc_bulk.BulkServiceServicer):
    """Serves jobs. The id of a job is the `request_id` with which it was submitted, normalized."""

    def __init__(self, bulk: BulkLearning, jobs: JobStore) -> None:
        self._bulk = bulk
        self._jobs = jobs

    async def SubmitTrajectories(
        self, request_iterator: AsyncIterator[service.SubmitTrajectoriesRequest], context: Any
    ) -> service.SubmitTrajectoriesResponse:
        """Accept a job, whole or not at all."""
        job = await self._bulk.submit(request_iterator)
        return service.SubmitTrajectoriesResponse(job=encode(job, bulk_pb2.Job))

    async def GetJob(self, request: service.GetJobRequest, context: Any) -> service.GetJobResponse:
        """Return a job."""
        job = await self._jobs.find(normalize_request_id(request.job_id))
        return service.GetJobResponse(job=encode(job, bulk_pb2.Job))

    async def ListJobs(self, request: service.ListJobsRequest, context: Any) -> service.ListJobsResponse:
        """Return a page of jobs, newest first."""
        size = request.page_size or DEFAULT_PAGE_SIZE
        dataset = request.dataset if request.HasField("dataset") else None
        jobs = await self._jobs.list_jobs(dataset, decode_page_token(request, datetime, str), size + 1)
        last = jobs[size - 1] if len(jobs) > size else None
        token = encode_page_token(request, last.created_at, last.key) if last else ""
        return service.ListJobsResponse(jobs=[encode(job, bulk_pb2.Job) for job in jobs[:size]], next_page_token=token)

    async def WatchJob(self, request: service.WatchJobRequest, context: Any) -> AsyncIterator[service.WatchJobResponse]:
        """Send a job whenever it changes."""
        async with aclosing(self._bulk.watch(normalize_request_id(request.job_id))) as jobs:
            async for job in jobs:
                yield service.WatchJobResponse(job=encode(job, bulk_pb2.Job))

    async def CancelJob(self, request: service.CancelJobRequest, context: Any) -> service.CancelJobResponse:
        """Cancel the pending trajectories of a job."""
        job = await self._bulk.cancel(normalize_request_id(request.job_id), IdempotencyKey.for_message(request))
        return service.CancelJobResponse(job=encode(job, bulk_pb2.Job))

    async def ListDeadLetters(
        self, request: service.ListDeadLettersRequest, context: Any
    ) -> service.ListDeadLettersResponse:
        """Return a page of the dead letters of a job."""
        size = request.page_size or DEFAULT_PAGE_SIZE
        (after,) = decode_page_token(request, int) or (-1,)
        letters = await self._jobs.list_dead_letters(normalize_request_id(request.job_id), after, size + 1)
        token = encode_page_token(request, letters[size - 1].index) if len(letters) > size else ""
        messages = [encode(letter, bulk_pb2.DeadLetter) for letter in letters[:size]]
        return service.ListDeadLettersResponse(dead_letters=messages, next_page_token=token)

    async def RetryDeadLetters(
        self, request: service.RetryDeadLettersRequest, context: Any
    ) -> service.RetryDeadLettersResponse:
        """Queue the dead letters of a job again."""
        job = await self._bulk.retry(normalize_request_id(request.job_id), IdempotencyKey.for_message(request))
        return service.RetryDeadLettersResponse(job=encode(job, bulk_pb2.Job))
