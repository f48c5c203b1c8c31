"""Build the curator service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import chassis
from chassis.deadlines import get_remaining
from chassis.logging import get_logger
from chassis.repetition import repeat
from chassis.server.cpu import CpuPool
from hansei.curator.v1 import curator_service_pb2_grpc
from hansei.playbook.v1 import playbook_service_pb2_grpc
from libs.embedding.connect import connect_embedding_model
from libs.embedding.embedder import TextEmbedder
from libs.llm.client import LLMClient
from libs.llm.connect import connect_chat
from libs.storage.startup import report_setting, wait_until_open
from services.curator.adapters import metrics
from services.curator.adapters.feed import RevisionFeed
from services.curator.adapters.sections import DEFAULT_FILE, SHIPPED_FILE, SectionLoader
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.log import Revision
from services.curator.prompts.builder import CuratorPromptBuilder
from services.curator.rpc.servicer.curator import CuratorServicer
from services.curator.rpc.servicer.message_size import MessageSize
from services.curator.rpc.servicer.playbook import PlaybookServicer
from services.curator.settings import CuratorSettings
from services.curator.usecases.curate import Curator, CuratorAgent
from services.curator.usecases.embed_new_texts import EmbedNewTexts
from services.curator.usecases.model_curator import ModelCurator
from services.curator.usecases.near_bullets import NearBullets
from services.curator.usecases.rule_curator import RuleCurator
from services.curator.usecases.similarity import EmbeddingSource, SimilaritySource, WordSource
from services.curator.usecases.watch import Watch

HOUSEKEEPING_SECONDS = 60
COMPACTION_SECONDS = 86_400
COMPACTION_PAUSE = 9.0
"""The deletion of unused embeddings takes a tenth of the time: it reads every bullet of the store."""

_log = get_logger(__name__)


def build(settings: CuratorSettings, peers: chassis.Peers) -> chassis.Service:
    """Return the curator as a service. With `LLM_PROVIDER=offline` it curates by rules.

    Raises `BadSetting`.
    """
    closing = AsyncExitStack()
    embedding_pool = CpuPool("curator-embed", workers=settings.embedding_threads)
    embedding_model = connect_embedding_model(settings, embedding_pool, closing, remaining=get_remaining)
    _log.info("embedding model loaded", model=embedding_model.model_id, similarity=settings.curation_similarity)
    llm_client = connect_chat(settings, remaining=get_remaining, default_temperature=0.0)

    def publish(revision: Revision) -> None:
        feed.publish(revision)
        metrics.count_revision(revision)

    setting = "HANSEI_CURATOR_DATABASE_URL" if settings.curator_database_url else "PLAYBOOK_DATA_DIR"
    with report_setting(setting):
        store = SqlPlaybookStore(settings.database_url, policy=settings.default_policy, on_commit=publish)
    feed = RevisionFeed(store, settings.curator_feed_poll_seconds)
    sections = _create_sections(settings)
    watch = Watch(store, feed, settings.curator_watch_progress_seconds, settings.curator_watch_max_lag)
    size = MessageSize(settings.max_message_bytes)
    embedder = TextEmbedder(embedding_model, store.create_embedding_store())
    embed_new_texts = EmbedNewTexts(embedder, remaining=get_remaining, count=metrics.count_new_texts)
    by_words = settings.curation_similarity == "words"
    source = WordSource() if by_words else EmbeddingSource(embedder, settings.curation_same_lesson)
    agent = CuratorAgent(_create_curator(settings, llm_client, source), store, sections, source, embed_new_texts)

    async def start() -> None:
        await wait_until_open(store.open, store.database.url, setting, settings.database_wait_seconds)

    async def close() -> None:
        await store.close()
        await llm_client.aclose()
        await closing.aclose()
        await embedding_pool.close()

    async def delete_old_data() -> None:
        await store.delete_responses(settings.response_retention)
        await store.expire_pending()
        await store.erase_deleted_rows()
        if settings.log_retention is not None:
            dropped = await store.drop_old_revisions(settings.log_retention)
            if dropped:
                _log.info("old revisions dropped from the log", revisions=dropped)
        metrics.record_pending(await store.count_pending_changes())

    async def compact_embeddings() -> None:
        deleted = await store.delete_unused_embeddings(COMPACTION_PAUSE)
        _log.info("unused embeddings deleted", embeddings=deleted)

    tasks: dict[str, Callable[[], Awaitable[None]]] = {
        "feed": feed.poll,
        "housekeeping": partial(repeat, HOUSEKEEPING_SECONDS, delete_old_data),
        "embeddings": partial(repeat, COMPACTION_SECONDS, compact_embeddings, first_pause=HOUSEKEEPING_SECONDS),
    }
    if store.notifies:
        tasks["notices"] = lambda: store.listen(feed.advance)
    return chassis.Service(
        name="curator",
        registrations=[
            chassis.Registration(
                curator_service_pb2_grpc.add_CuratorServiceServicer_to_server,
                CuratorServicer(agent, store, size, None if settings.is_offline else NearBullets(source)),
            ),
            chassis.Registration(
                playbook_service_pb2_grpc.add_PlaybookServiceServicer_to_server,
                PlaybookServicer(store, sections, watch, embedder, embed_new_texts, size),
                endless=("WatchPlaybook",),
            ),
        ],
        start=start,
        close=close,
        tasks=tasks,
    )


def _create_curator(settings: CuratorSettings, llm_client: LLMClient, source: SimilaritySource) -> Curator:
    if settings.is_offline:
        return RuleCurator(source)
    prompts = CuratorPromptBuilder(Path(settings.prompts_dir) / "curator", settings.language)
    return ModelCurator(llm_client, prompts, settings.llm_model, source)


def _create_sections(settings: CuratorSettings) -> SectionLoader:
    if settings.curator_sections_file:
        return SectionLoader(settings.curator_sections_file)
    return SectionLoader(DEFAULT_FILE if DEFAULT_FILE.exists() else SHIPPED_FILE)
