"""Puts bulk learning together."""

from __future__ import annotations

import socket
from datetime import timedelta

from sqlalchemy.exc import ArgumentError

from chassis.settings import BadSetting
from gateway.bulk.batch_queue import BatchQueue, Lanes
from gateway.bulk.bulk import BulkLearning, Upkeep
from gateway.bulk.database import JobsDatabase
from gateway.bulk.jobs import Jobs, Room
from gateway.bulk.learner import BatchLearner, Learns, Patience
from gateway.bulk.measures import Measures
from gateway.bulk.progress import Progress
from gateway.settings import GatewaySettings
from libs.sql.engines import url_of


def bulk_learning(settings: GatewaySettings, learning: Learns) -> BulkLearning:
    """Bulk learning by `learning`, as the settings want it. Raises BadSetting."""
    try:
        url = url_of(settings.gateway_db)
    except ArgumentError as error:
        raise BadSetting("GATEWAY_DB must be the name of a file or a PostgreSQL URL") from error
    executor = settings.bulk_executor or socket.gethostname()
    lanes = Lanes(min(settings.bulk_dataset_concurrency, settings.bulk_concurrency), settings.bulk_concurrency)
    database = JobsDatabase(url)
    progress = Progress(database, spread=lanes.dataset)
    patience = Patience(settings.bulk_attempts, settings.bulk_retry_base_seconds, settings.bulk_retry_max_seconds)
    measures = Measures()
    learner = BatchLearner(learning, progress, patience, attempted=measures.attempted)
    return BulkLearning(
        database,
        Jobs(database, Room(settings.bulk_max_waiting, settings.bulk_max_waiting_bytes)),
        progress,
        BatchQueue(url, executor, lanes, learner.run),
        learner,
        Upkeep(
            executor,
            timedelta(seconds=settings.bulk_lease_seconds),
            timedelta(hours=settings.bulk_retention_hours),
        ),
        measures.took_stock,
    )
