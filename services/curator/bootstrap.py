"""Puts the curator together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import chassis
from chassis.deadlines import remaining
from chassis.errors import HanseiError
from hansei.curator.v1 import curator_service_pb2_grpc
from hansei.playbook.v1 import playbook_service_pb2_grpc
from libs.llm.client import LLMClient
from libs.llm.connect import connect_chat
from libs.sql.opening import named_by, opened
from services.curator.adapters import measures
from services.curator.adapters.feed import RevisionFeed
from services.curator.adapters.peers import SearchPeer
from services.curator.adapters.prompt import CuratorPromptBuilder
from services.curator.adapters.sections import DEFAULT_FILE, SHIPPED_FILE, SectionLoader
from services.curator.adapters.sql.store import SqlPlaybookStore
from services.curator.domain.log import Revision
from services.curator.rpc.servicers import CuratorServicer, PlaybookServicer
from services.curator.settings import CuratorSettings
from services.curator.usecases.curate import Curator, CuratorAgent
from services.curator.usecases.embed_ahead import EmbedAhead
from services.curator.usecases.model_curator import ModelCurator
from services.curator.usecases.rule_curator import RuleCurator
from services.curator.usecases.similarity import SearchSimilarity, Similarity, WordSimilarity
from services.curator.usecases.vectors import Vectors
from services.curator.usecases.watch import Watch

HOUSEKEEPING_SECONDS = 60

_log = logging.getLogger(__name__)


def build(settings: CuratorSettings, peers: chassis.Peers) -> chassis.Service:
    """The curator as a service of the chassis; it may call search. With `LLM_PROVIDER=offline` it curates by rules.

    Raises `BadSetting`.
    """
    search = SearchPeer(lambda: peers.channel("search"))
    vectors = Vectors(search)
    similarity = _similarity(settings, search, vectors)
    llm_client = connect_chat(settings, remaining=remaining)

    def committed(revision: Revision) -> None:
        feed.committed(revision)
        measures.count(revision)

    place = "HANSEI_CURATOR_DATABASE_URL" if settings.curator_database_url else "PLAYBOOK_DATA_DIR"
    with named_by(place):
        store = SqlPlaybookStore(settings.database_url, policy=settings.default_policy, committed=committed)
    feed = RevisionFeed(store, settings.curator_feed_poll_seconds)
    sections = _sections(settings)
    watch = Watch(store, feed, settings.curator_watch_progress_seconds, settings.curator_watch_patience)
    embed_ahead = EmbedAhead(
        vectors,
        store,
        settings.curator_embed_ahead_seconds if settings.search_addr else 0,
        remaining=remaining,
        count=measures.count_ahead,
    )
    agent = CuratorAgent(_curator(settings, llm_client, similarity), store, sections, similarity, embed_ahead)

    async def start() -> None:
        await opened(store.open, store.url, place, settings.database_wait_seconds)

    async def close() -> None:
        await store.close()
        await llm_client.aclose()

    async def keep_house() -> None:
        while True:
            try:
                await store.forget_answers(settings.answer_retention)
                await store.expire_pending()
                measures.count_pending(await store.pending_counts())
            except HanseiError as error:
                _log.warning("housekeeping is put off: %s", error)
            await asyncio.sleep(HOUSEKEEPING_SECONDS)

    tasks: dict[str, Callable[[], Awaitable[None]]] = {"feed": feed.poll, "housekeeping": keep_house}
    if store.gives_notice:
        tasks["notices"] = lambda: store.listen(feed.reached)
    return chassis.Service(
        name="curator",
        registrations=[
            chassis.Registration(
                curator_service_pb2_grpc.add_CuratorServiceServicer_to_server, CuratorServicer(agent, store)
            ),
            chassis.Registration(
                playbook_service_pb2_grpc.add_PlaybookServiceServicer_to_server,
                PlaybookServicer(store, sections, watch, embed_ahead),
                endless=("WatchPlaybook",),
            ),
        ],
        start=start,
        close=close,
        tasks=tasks,
    )


def _curator(settings: CuratorSettings, llm_client: LLMClient, similarity: Similarity) -> Curator:
    if settings.is_offline:
        return RuleCurator(similarity)
    prompts = CuratorPromptBuilder(Path(settings.prompts_dir) / "curator", settings.language)
    return ModelCurator(llm_client, prompts, settings.llm_model, similarity)


def _similarity(settings: CuratorSettings, search: SearchPeer, vectors: Vectors) -> Similarity:
    if settings.curation_similarity == "search" and not settings.search_addr:
        raise chassis.BadSetting("CURATION_SIMILARITY: search needs SEARCH_ADDR")
    if settings.search_addr and settings.curation_similarity != "words":
        _log.info("lessons are compared by the vectors of the search service")
        return SearchSimilarity(search, vectors, settings.curation_same_lesson)
    _log.info("lessons are compared by their words, because SEARCH_ADDR is not set or CURATION_SIMILARITY says so")
    return WordSimilarity()


def _sections(settings: CuratorSettings) -> SectionLoader:
    if settings.curator_sections_file:
        return SectionLoader(settings.curator_sections_file)
    return SectionLoader(DEFAULT_FILE if DEFAULT_FILE.exists() else SHIPPED_FILE)
