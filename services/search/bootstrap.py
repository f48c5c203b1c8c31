"""Create the search service from its settings."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

import chassis
from chassis import deadlines
from chassis.errors import HanseiError
from chassis.logging import get_logger
from chassis.repetition import repeat
from chassis.replicas import OwnShare, build_address_target, split_host_and_port
from chassis.server.cpu import CpuPool
from chassis.server.service import do_nothing
from hansei.search.v1 import collection_service_pb2_grpc, search_service_pb2_grpc
from libs.embedding.connect import connect_embedding_model, connect_model_by_id
from libs.embedding.embedder import TextEmbedder
from libs.embedding.local import PooledModel
from libs.embedding.store import TableStore
from libs.storage.database import Database
from libs.storage.startup import report_setting, wait_until_open
from services.search.adapters import metrics
from services.search.adapters.loops import LoopsLoader, load_loops
from services.search.adapters.memory import trim_memory
from services.search.adapters.peers import CuratorFeed, decode_bullet, parse_bullet
from services.search.adapters.snapshots import NoSnapshots, SnapshotFiles, delete_unfinished_snapshots
from services.search.adapters.sql import schema
from services.search.adapters.sql.repository import (
    CollectionRepository,
    open_collection_database,
    open_embedding_database,
)
from services.search.domain.bm25 import Variant
from services.search.domain.bullet import IndexedBullet
from services.search.domain.collection import Backend, Collection, parse_chunk_ref
from services.search.domain.collection_errors import BackendMissing
from services.search.domain.errors import UnknownTokenizer
from services.search.domain.index import HybridIndex
from services.search.domain.neighbours import NeighbourIndex
from services.search.domain.postings import Int64s
from services.search.domain.snapshot import Snapshots, StoredItemT
from services.search.domain.tokenizers import Tokenizer, cache_query_terms, get_tokenizer
from services.search.domain.vector_weight import VectorWeight
from services.search.domain.vectors import Float32s
from services.search.domain.view import LoopsInUse, RankingRules
from services.search.rpc.servicer.collections import CollectionServicer
from services.search.rpc.servicer.search import SearchServicer
from services.search.settings import SearchSettings
from services.search.usecases.chunk_documents import ChunkDocuments
from services.search.usecases.chunk_index import ChunkIndex
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.drop_deleted import drop_deleted_playbooks
from services.search.usecases.embedders import Embedders
from services.search.usecases.evaluate import NAMED_VARIANTS, Quality, RankingVariant, evaluate, read_retrieval_set
from services.search.usecases.former_generations import FormerGenerations
from services.search.usecases.hybrid_chunks import HybridChunks
from services.search.usecases.load_documents import LoadDocuments
from services.search.usecases.manage_collections import ManageCollections
from services.search.usecases.playbook_follower import PlaybookFollower
from services.search.usecases.playbook_indexes import PlaybookIndexes
from services.search.usecases.ports import IndexFactory
from services.search.usecases.put_documents import PutDocuments
from services.search.usecases.rank_bullets import RankBullets
from services.search.usecases.rank_entries import RankEntries
from services.search.usecases.reembed_collections import ReembedCollections
from services.search.usecases.search_collection import SearchCollection
from services.search.usecases.search_playbook import SearchPlaybook

WARM_INDEXES = 8
"""The playbooks that are followed from the start on; the others from their first search on."""

CreateIndex = Callable[[Collection], ChunkIndex]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The objects with which playbooks and collections are indexed and ranked."""

    settings: SearchSettings
    tokenize: Tokenizer
    embedders: Embedders
    index_factory: IndexFactory[Any]
    rank: RankEntries
    scoring_pool: CpuPool

    def create_snapshots(
        self, folder: str, model: str, parse_item: Callable[[bytes], StoredItemT]
    ) -> SnapshotFiles[StoredItemT] | NoSnapshots[StoredItemT]:
        """Return the snapshots in a folder of indexes with the vectors of a model."""
        if self.settings.search_engine == "reference":
            return NoSnapshots()
        made_with = {"embedder": model, "tokenizer": self.settings.search_tokenizer}
        return SnapshotFiles(Path(self.settings.search_snapshot_dir, folder), made_with, parse_item)


class _Part(NamedTuple):
    """A gRPC service of this one, with its share of the start, the end and the tasks."""

    registration: chassis.Registration
    start: Callable[[], Awaitable[None]]
    save_and_close: Callable[[], Awaitable[None]]
    tasks: Mapping[str, Callable[[], Awaitable[None]]]


def build(settings: SearchSettings, peers: chassis.Peers) -> chassis.Service:
    """Return search as a service of the chassis; it calls the curator. Raises `BadSetting` (G-08, S-27, S-38)."""
    closing = AsyncExitStack()
    scoring_pool = CpuPool("search-score", workers=settings.search_threads)
    embedding_pool = CpuPool("search-embed", workers=settings.embedding_threads)
    compile_pool = CpuPool("search-compile", workers=1)  # the feed and queries do not wait for a compiler
    with report_setting("HANSEI_SEARCH_DATABASE_URL"):
        database = open_collection_database(settings.search_database_url)
        cache_database = open_embedding_database(settings.search_database_url)
    embedders = _connect_embedders(settings, embedding_pool, cache_database, closing)
    loops = LoopsInUse()
    loader = LoopsLoader(loops)
    ranking = _create_ranking(settings, embedders, loops, scoring_pool)
    backends, chunk_databases = _connect_backends(ranking, closing)
    playbooks = _build_playbooks(ranking, peers, embedding_pool)
    collections = _build_collections(ranking, CollectionRepository(database), backends)

    async def start() -> None:
        openings = [(database, "HANSEI_SEARCH_DATABASE_URL"), (cache_database, "HANSEI_SEARCH_DATABASE_URL")]
        openings += [(chunk_database, "HANSEI_SEARCH_PGVECTOR") for chunk_database in chunk_databases]
        for opening, setting in openings:
            await wait_until_open(opening.open, opening.url, setting, settings.database_wait_seconds)
        await scoring_pool.run(delete_unfinished_snapshots, Path(settings.search_snapshot_dir))
        await playbooks.start()
        await collections.start()

    async def compile_loops() -> None:
        await asyncio.sleep(settings.search_compile_after_seconds)
        await compile_pool.run(loader.load)
        # Objects that exist now will stay. A garbage collection of them would stop every call for a tenth of a second.
        gc.freeze()

    async def close() -> None:
        loader.stop()
        await playbooks.save_and_close()
        await collections.save_and_close()
        await closing.aclose()
        for pool in (scoring_pool, embedding_pool):
            await pool.close()
        await cache_database.close()
        await database.close()
        await compile_pool.close()

    return chassis.Service(
        name="search",
        registrations=[playbooks.registration, collections.registration],
        start=start,
        close=close,
        tasks={"compiled loops": compile_loops, **playbooks.tasks, **collections.tasks},
    )


def _connect_embedders(
    settings: SearchSettings, pool: CpuPool, cache_database: Database, closing: AsyncExitStack
) -> Embedders:
    """Return the embedder of the configured model, and the way to those of former models."""
    model = connect_embedding_model(settings, pool, closing, remaining=deadlines.get_remaining)
    log.info("embedding model loaded", model=model.model_id)
    cache = TableStore(schema.embeddings, cache_database.read, cache_database.write)

    async def connect_former_model(model_id: str) -> TextEmbedder | None:
        options = {"remaining": deadlines.get_remaining}
        former = await pool.run(connect_model_by_id, model_id, settings, pool, closing, **options)
        return TextEmbedder(former, cache) if former else None

    return Embedders(TextEmbedder(model, cache, count=metrics.count_embeddings), connect_former_model)


def _create_ranking(
    settings: SearchSettings, embedders: Embedders, loops: LoopsInUse, scoring_pool: CpuPool
) -> _Ranking:
    tokenize = _get_tokenizer(settings)
    weight = VectorWeight(settings.search_alpha, settings.search_alpha_scaling)
    return _Ranking(
        settings,
        tokenize,
        embedders,
        _create_index_factory(settings, tokenize, loops),
        RankEntries(embedders.current, cache_query_terms(tokenize), weight, settings.search_fusion, scoring_pool),
        scoring_pool,
    )


def _build_playbooks(ranking: _Ranking, peers: chassis.Peers, embedding_pool: CpuPool) -> _Part:
    """Return SearchService, which follows playbooks of the curator."""
    settings, scoring_pool, embedder = ranking.settings, ranking.scoring_pool, ranking.embedders.current
    model = embedder.model
    snapshots = ranking.create_snapshots("", model.model_id, parse_bullet)

    def create_follower(dataset: str, embedder: TextEmbedder, snapshots: Snapshots[IndexedBullet]) -> PlaybookFollower:
        feed = CuratorFeed(peers.get_channel("curator"), embedder.model.model_id)
        return PlaybookFollower(dataset, feed, embedder, ranking.index_factory, snapshots, scoring_pool)

    def create_former(dataset: str, embedder: TextEmbedder) -> PlaybookFollower:
        former_snapshots = ranking.create_snapshots("", embedder.model.model_id, parse_bullet)
        return create_follower(dataset, embedder, former_snapshots)

    former_generations = FormerGenerations(ranking.embedders, create_former)
    share = _create_own_share(settings)
    indexes = PlaybookIndexes(
        lambda dataset: create_follower(dataset, embedder, snapshots),
        settings.search_memory_bytes,
        former_generations.create_follower,
        is_first_owner=share.is_first_owner,
        release_seconds=settings.search_release_seconds,
        free_memory=lambda datasets: scoring_pool.run(_free_memory, snapshots, datasets),
    )
    metrics.observe_indexes(indexes)
    servicer = SearchServicer(
        SearchPlaybook(indexes, ranking.rank, deadlines.get_remaining, max_page_bytes=settings.max_message_bytes // 2),
        RankBullets(embedder, ranking.rank, ranking.index_factory.create, scoring_pool),
        indexes,
        embedder,
        settings.search_tokenizer,
        decode_bullet,
        settings.playbook_budget_tokens,
    )

    async def start() -> None:
        await former_generations.find(await embedding_pool.run(snapshots.find_former_models))

    async def warm_up() -> None:
        """Prepare for the first searches: agents wait for them only some tenths of a second."""
        for dataset in await scoring_pool.run(snapshots.list_newest, WARM_INDEXES):
            indexes.get_index(dataset)
        if isinstance(model, PooledModel):  # a provider would charge for the text
            try:
                await embedder.embed_queries(["warm up"])
            except HanseiError as error:
                log.info("the first searches take longer: warming up failed", error=str(error))

    async def save_and_close() -> None:
        await indexes.save()
        await indexes.close()

    feed = CuratorFeed(peers.get_channel("curator"), model.model_id)
    drop_deleted = partial(drop_deleted_playbooks, feed, snapshots, scoring_pool)
    seconds = settings.search_snapshot_seconds
    return _Part(
        chassis.Registration(search_service_pb2_grpc.add_SearchServiceServicer_to_server, servicer),
        start,
        save_and_close,
        {
            "first searches": warm_up,
            "deleted playbooks": partial(repeat, seconds, drop_deleted),
            "own share of datasets": share.run,
            "eviction of indexes": indexes.run_eviction,
            "maintenance of indexes": partial(repeat, seconds, indexes.maintain, first_pause=seconds),
        },
    )


def _build_collections(
    ranking: _Ranking, store: CollectionRepository, backends: Mapping[Backend, CreateIndex]
) -> _Part:
    """Return CollectionService, whose documents have indexes of several backends."""

    def create_chunk_index(collection: Collection) -> ChunkIndex:
        if collection.backend not in backends:
            raise BackendMissing(collection.backend.name)
        return backends[collection.backend](collection)

    settings, embedders = ranking.settings, ranking.embedders
    seconds = settings.search_snapshot_seconds
    collections = CollectionIndexes(store, create_chunk_index, settings.search_max_collections)
    chunk = ChunkDocuments(embedders, ranking.tokenize, ranking.scoring_pool)
    put = PutDocuments(store, collections, chunk)
    servicer = CollectionServicer(
        store,
        ManageCollections(store, collections, embedders.model, frozenset(backends)),
        put,
        LoadDocuments(store, put, chunk),
        SearchCollection(store, collections, embedders, ranking.rank),
    )

    async def save_and_close() -> None:
        await collections.save_snapshots()
        await collections.close()

    return _Part(
        chassis.Registration(collection_service_pb2_grpc.add_CollectionServiceServicer_to_server, servicer),
        do_nothing,
        save_and_close,
        {
            "cut-over of collections": ReembedCollections(store, collections, embedders.current).__call__,
            "maintenance of collections": partial(repeat, seconds, collections.maintain, first_pause=seconds),
        },
    )


def _connect_backends(
    ranking: _Ranking, closing: AsyncExitStack
) -> tuple[Mapping[Backend, CreateIndex], Sequence[Database]]:
    """Return how each configured backend creates the index of a collection, and the databases to open for it."""
    settings, tokenize, variant = ranking.settings, ranking.tokenize, ranking.settings.bm25

    def create_hybrid_chunks(collection: Collection) -> ChunkIndex:
        snapshots = ranking.create_snapshots("collections", collection.model, parse_chunk_ref)
        return HybridChunks(collection, ranking.index_factory, snapshots, ranking.scoring_pool)

    backends: dict[Backend, CreateIndex] = {Backend.HYBRID: create_hybrid_chunks}
    databases = []
    if settings.search_qdrant:
        backends[Backend.QDRANT] = _connect_qdrant(settings, tokenize, variant, closing)
    if settings.search_pgvector:
        backends[Backend.PGVECTOR], database = _connect_pgvector(settings, tokenize, variant, closing)
        databases.append(database)
    return backends, databases


def _create_own_share(settings: SearchSettings) -> OwnShare:
    """Return the datasets whose first owner is this process, as callers choose it."""
    ip, port = settings.search_own_ip, split_host_and_port(settings.listen_address)[1]
    return OwnShare("search", settings.replicas_address, build_address_target(ip, port) if ip else "")


def _free_memory(snapshots: Snapshots[IndexedBullet], datasets: Sequence[str]) -> None:
    """Return the memory of dropped indexes to the operating system."""
    for dataset in datasets:
        snapshots.drop_cached_pages(dataset)
    trim_memory()


def _create_index_factory(settings: SearchSettings, tokenize: Tokenizer, loops: LoopsInUse) -> IndexFactory[Any]:
    """Return the factory of indexes of the configured engine."""
    if settings.search_engine == "reference":
        from services.search.adapters.reference import ReferenceIndex  # imports FAISS and rank_bm25

        def create(dimension: int) -> ReferenceIndex[Any]:
            return ReferenceIndex(dimension, tokenize, settings.bm25, settings.sentence_weight)

        return IndexFactory(create, lambda state: create(0))
    probes = settings.search_probes

    def build_neighbours(units: Float32s, rows: Int64s, covered: int) -> NeighbourIndex:
        from services.search.adapters.faiss_neighbours import FaissNeighbours  # only large indexes need it

        return FaissNeighbours.build(units, rows, covered, probes)

    def restore_neighbours(arrays: Mapping[str, NDArray[Any]]) -> NeighbourIndex:
        from services.search.adapters.faiss_neighbours import FaissNeighbours

        return FaissNeighbours.restore(arrays, probes)

    rules = RankingRules(settings.bm25, loops, settings.search_exact_limit, build_neighbours, settings.sentence_weight)
    return IndexFactory(
        lambda dimension: HybridIndex(dimension, tokenize, rules),
        lambda state: HybridIndex.restore(state, tokenize, rules, restore_neighbours),
    )


def _connect_qdrant(
    settings: SearchSettings, tokenize: Tokenizer, variant: Variant, closing: AsyncExitStack
) -> CreateIndex:
    # The import of the client takes longer than all others.
    from services.search.adapters.qdrant import Qdrant, QdrantChunks

    qdrant = Qdrant(settings.search_qdrant, settings.search_qdrant_api_key.get_secret_value())
    closing.push_async_callback(qdrant.close)
    return lambda collection: QdrantChunks(collection, qdrant, tokenize, variant)


def _connect_pgvector(
    settings: SearchSettings, tokenize: Tokenizer, variant: Variant, closing: AsyncExitStack
) -> tuple[CreateIndex, Database]:
    from services.search.adapters.pgvector.chunks import Pgvector, PgvectorChunks  # imports the driver of PostgreSQL

    with report_setting("HANSEI_SEARCH_PGVECTOR"):
        pgvector = Pgvector(settings.search_pgvector)
    if not pgvector.database.is_postgresql:
        raise chassis.BadSetting("HANSEI_SEARCH_PGVECTOR: must be the URL of a PostgreSQL database")
    closing.push_async_callback(pgvector.close)
    return lambda collection: PgvectorChunks(collection, pgvector, tokenize, variant), pgvector.database


def _get_tokenizer(settings: SearchSettings) -> Tokenizer:
    try:
        return get_tokenizer(settings.search_tokenizer)
    except UnknownTokenizer as error:
        raise chassis.BadSetting(f"SEARCH_TOKENIZER: {error}") from error


async def evaluate_file(settings: SearchSettings, path: Path, variants: Sequence[str] = ()) -> dict[str, Quality]:
    """Return the retrieval quality of the settings (`default`) and of named variants for a file.

    Raises `BadRetrievalSet`, `BadSetting`, `EmbeddingFailed`, and `KeyError` for a name that is not in
    `NAMED_VARIANTS`.
    """
    retrieval_set = read_retrieval_set(path)
    compared = {
        "default": RankingVariant(
            settings.search_tokenizer,
            settings.bm25,
            VectorWeight(settings.search_alpha, settings.search_alpha_scaling),
            settings.search_fusion,
            settings.sentence_weight,
        )
    }
    compared.update((name, NAMED_VARIANTS[name]) for name in variants)
    database = open_embedding_database(settings.search_database_url)
    pool = CpuPool("search-embed", workers=settings.embedding_threads)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(database.close)
        closing.push_async_callback(pool.close)
        await database.open()
        model = connect_embedding_model(settings, pool, closing, remaining=deadlines.get_remaining)
        cache = TableStore(schema.embeddings, database.read, database.write)
        embedder = TextEmbedder(model, cache)
        return await evaluate(retrieval_set, embedder, LoopsInUse(load_loops()), compared)
