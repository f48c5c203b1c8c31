"""Composition of the traces that arrive by OTLP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from chassis.settings import BadSetting
from gateway.otlp.adapters.metrics import count_items, count_trace
from gateway.otlp.adapters.sql.repository import TraceRepository
from gateway.otlp.domain.datasets import parse_datasets
from gateway.otlp.domain.trace import TraceLimits
from gateway.otlp.settings import OtlpSettings
from gateway.otlp.usecases.learn_traces import TraceLearning
from gateway.otlp.usecases.ports import Caller, JobOwners, JobSubmission, OutcomeReporter, TrajectoryReader
from gateway.otlp.usecases.receive_exports import ExportReceiver
from libs.storage.database import Database
from libs.storage.timestamps import utc_now


@dataclass(frozen=True, slots=True)
class Otlp:
    """The traces of one gateway."""

    receiver: ExportReceiver
    learning: TraceLearning


def build_otlp(
    settings: OtlpSettings,
    database: Database,
    *,
    caller: Callable[[], Caller],
    reader: TrajectoryReader,
    outcomes: OutcomeReporter,
    submit: JobSubmission,
    add_owner: JobOwners,
) -> Otlp:
    """Return the reception and the learning of traces. Raises BadSetting."""
    try:
        datasets = parse_datasets(settings.otlp_datasets)
    except ValueError as error:
        raise BadSetting(f"HANSEI_OTLP_DATASETS: {error}") from error
    limits = TraceLimits(
        settle=timedelta(seconds=settings.otlp_settle_seconds),
        idle=timedelta(seconds=settings.otlp_idle_seconds),
        retention=timedelta(hours=settings.otlp_retention_hours),
        trace_bytes=settings.otlp_trace_max_bytes,
        total_bytes=settings.otlp_max_bytes,
    )
    repository = TraceRepository(database, limits)
    learning = TraceLearning(repository, reader, submit, outcomes, add_owner, utc_now, count=count_trace)
    receiver = ExportReceiver(repository, datasets, caller, notify=learning.notify, count=count_items)
    return Otlp(receiver, learning)
