"""Build the evidence service."""

from __future__ import annotations

from functools import partial

import chassis
from chassis.repetition import repeat
from chassis.settings import BadSetting
from hansei.evidence.v1 import (
    archive_service_pb2_grpc,
    evidence_service_pb2_grpc,
    guard_service_pb2_grpc,
    overview_service_pb2_grpc,
)
from libs.storage.database import Database
from libs.storage.startup import report_setting, wait_until_open
from libs.storage.timestamps import utc_now
from services.evidence.adapters import metrics
from services.evidence.adapters.bodies import ObjectStore, compress, compress_pack, decompress
from services.evidence.adapters.guards_feed import GuardsFeed
from services.evidence.adapters.playbooks import GrpcPlaybooks
from services.evidence.adapters.search import GrpcBulletSearch
from services.evidence.adapters.sql.archive_days import OverviewRepository
from services.evidence.adapters.sql.archive_repository import ArchiveRepository
from services.evidence.adapters.sql.guard_repository import GuardRepository
from services.evidence.adapters.sql.guard_trial_repository import GuardTrialRepository
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.adapters.sql.schema import requests
from services.evidence.rpc.convert.archive import decode_archived_trajectory
from services.evidence.rpc.servicer.archive import ArchiveServicer
from services.evidence.rpc.servicer.evidence import EvidenceServicer
from services.evidence.rpc.servicer.guards import GuardServicer
from services.evidence.rpc.servicer.overview import OverviewServicer
from services.evidence.settings import EvidenceSettings
from services.evidence.usecases.archive import Archive
from services.evidence.usecases.backtest_archive import BacktestArchive
from services.evidence.usecases.check_call import CheckCall
from services.evidence.usecases.decisions import DecisionPublisher
from services.evidence.usecases.erase_deleted import EraseDeletedDatasets
from services.evidence.usecases.guard_decisions import GuardDecisions
from services.evidence.usecases.recall import Recall
from services.evidence.usecases.report_servings import ReportServings
from services.evidence.usecases.retest_guards import RetestGuards

PUBLISH_SECONDS = 2.0
"""Pause before harmful bullets are removed from their playbooks, and guards get other modes."""
_SETTING = "HANSEI_EVIDENCE_DATABASE_URL"


def build(settings: EvidenceSettings, peers: chassis.Peers) -> chassis.Service:
    """Return the evidence service; it calls search and the curator. Raises `BadSetting`."""
    with report_setting(_SETTING):
        store = EvidenceRepository(settings.evidence_database_url)
    playbooks = GrpcPlaybooks(peers.get_channel("curator"))
    publisher = DecisionPublisher(store, playbooks)
    recall = Recall(GrpcBulletSearch(peers.get_channel("search")), store)
    archive = _create_archive(settings, store.database)
    servicer = EvidenceServicer(
        recall, store, publisher, archive.add, count_serving=metrics.count_serving, count_report=metrics.count_report
    )
    report_servings = ReportServings(store, count_report=metrics.count_report)
    guards, guard_store = GuardsFeed(peers.get_channel("curator")), GuardRepository(store.database)
    check_call = CheckCall(guards, guard_store, metrics.count_check)
    erase_deleted = EraseDeletedDatasets(playbooks, archive, store, guard_store, check_call, now=utc_now)
    guard_trials, backtests = GuardTrialRepository(store.database), BacktestArchive(archive, decode_archived_trajectory)
    guard_decisions = GuardDecisions(guards, guard_store, guard_trials, backtests, playbooks)
    retest_guards = RetestGuards(guards, guard_store, guard_trials, backtests)
    guard_servicer = GuardServicer(check_call, guards, guard_store, backtests, guard_trials, guard_decisions)

    async def start() -> None:
        await wait_until_open(store.database.open, store.database.url, _SETTING, settings.database_wait_seconds)

    async def report_checks() -> None:
        metrics.report_failed_checks(await store.count_failed_checks())

    async def close() -> None:
        await guards.close()
        await store.database.close()

    return chassis.Service(
        name="evidence",
        registrations=[
            chassis.Registration(evidence_service_pb2_grpc.add_EvidenceServiceServicer_to_server, servicer),
            chassis.Registration(
                archive_service_pb2_grpc.add_ArchiveServiceServicer_to_server,
                ArchiveServicer(archive, report_servings, count_stored=metrics.count_stored_trajectory),
            ),
            chassis.Registration(guard_service_pb2_grpc.add_GuardServiceServicer_to_server, guard_servicer),
            chassis.Registration(
                overview_service_pb2_grpc.add_OverviewServiceServicer_to_server,
                OverviewServicer(OverviewRepository(store.database)),
            ),
        ],
        start=start,
        close=close,
        tasks={
            "housekeeping": partial(
                repeat,
                settings.evidence_housekeeping_seconds,
                partial(requests.delete_expired, store.database, settings.response_retention),
                partial(guard_store.delete_older, settings.guard_retention),
                guards.release_unused,
                report_checks,
                archive.maintain,
                erase_deleted,
            ),
            "decisions": partial(repeat, PUBLISH_SECONDS, publisher.publish, retest_guards, guard_decisions),
        },
    )


def _create_archive(settings: EvidenceSettings, database: Database) -> Archive:
    """Return the archive. Raises `BadSetting`."""
    try:
        objects = ObjectStore(settings.evidence_object_store_url) if settings.evidence_object_store_url else None
    except ValueError as error:
        raise BadSetting(f"HANSEI_EVIDENCE_OBJECT_STORE_URL: {error}") from error
    return Archive(
        ArchiveRepository(database),
        objects,
        settings.archive_limits,
        compress=compress,
        compress_pack=compress_pack,
        decompress=decompress,
        now=utc_now,
    )
