"""Composition of bulk learning."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import timedelta

from chassis.retry import RetryPolicy
from gateway.bulk.adapters.dbos_queue import BatchConcurrency, DbosQueue
from gateway.bulk.adapters.metrics import BulkMetrics
from gateway.bulk.adapters.sql.batch_repository import BatchRepository, ReplicaLeases
from gateway.bulk.adapters.sql.repository import JobRepository
from gateway.bulk.domain.job import QueueCapacity
from gateway.bulk.rpc.servicer import BulkServicer
from gateway.bulk.settings import BulkSettings
from gateway.bulk.usecases.learn_batches import BatchLearner
from gateway.bulk.usecases.maintain_jobs import BulkLearning, MaintenancePolicy
from gateway.bulk.usecases.ports import LearnChain
from libs.storage.database import Database


@dataclass(frozen=True, slots=True)
class Bulk:
    """Bulk learning of one gateway."""

    learning: BulkLearning
    servicer: BulkServicer


def build_bulk(settings: BulkSettings, database: Database, chain: LearnChain) -> Bulk:
    """Return bulk learning by `chain`."""
    executor = settings.bulk_executor or socket.gethostname()
    concurrency = BatchConcurrency(
        min(settings.bulk_dataset_concurrency, settings.bulk_concurrency), settings.bulk_concurrency
    )
    jobs = JobRepository(database, QueueCapacity(settings.bulk_max_waiting, settings.bulk_max_waiting_bytes))
    batches = BatchRepository(database, concurrency.dataset)
    metrics = BulkMetrics()
    learner = BatchLearner(
        chain,
        batches,
        RetryPolicy(
            settings.bulk_attempts, settings.bulk_retry_base_seconds, longest_pause=settings.bulk_retry_max_seconds
        ),
        outage_seconds=settings.bulk_outage_seconds,
        record_attempt=metrics.record_attempt,
    )
    learning = BulkLearning(
        jobs,
        batches,
        ReplicaLeases(database, executor),
        DbosQueue(database.url, executor, concurrency, learner.run),
        learner,
        MaintenancePolicy(
            timedelta(seconds=settings.bulk_lease_seconds), timedelta(hours=settings.bulk_retention_hours)
        ),
        metrics.record_totals,
    )
    return Bulk(learning, BulkServicer(learning, jobs))
