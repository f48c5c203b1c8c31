"""Build the evidence service."""

from __future__ import annotations

import asyncio

import chassis
from chassis.errors import HanseiError
from chassis.logging import get_logger
from hansei.evidence.v1 import evidence_service_pb2_grpc
from libs.storage.startup import report_setting, wait_until_open
from services.evidence.adapters import metrics
from services.evidence.adapters.search import GrpcBulletSearch
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.rpc.servicer.evidence import EvidenceServicer
from services.evidence.settings import EvidenceSettings
from services.evidence.usecases.recall import Recall

HOUSEKEEPING_SECONDS = 60
_SETTING = "HANSEI_EVIDENCE_DATABASE_URL"

_log = get_logger(__name__)


def build(settings: EvidenceSettings, peers: chassis.Peers) -> chassis.Service:
    """Return the evidence service; it calls search. Raises `BadSetting`."""
    with report_setting(_SETTING):
        store = EvidenceRepository(settings.evidence_database_url)
    recall = Recall(GrpcBulletSearch(peers.channel("search")), store)
    servicer = EvidenceServicer(recall, store, count_serving=metrics.count_serving, count_report=metrics.count_report)

    async def start() -> None:
        await wait_until_open(store.database.open, store.database.url, _SETTING, settings.database_wait_seconds)

    async def keep_house() -> None:
        while True:
            try:
                await store.delete_responses(settings.response_retention)
            except HanseiError as error:
                _log.warning("housekeeping failed; trying again later", error=str(error))
            await asyncio.sleep(HOUSEKEEPING_SECONDS)

    return chassis.Service(
        name="evidence",
        registrations=[chassis.Registration(evidence_service_pb2_grpc.add_EvidenceServiceServicer_to_server, servicer)],
        start=start,
        close=store.database.close,
        tasks={"housekeeping": keep_house},
    )
