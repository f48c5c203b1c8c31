"""Create the search service from its settings."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import chassis
from chassis import deadlines
from chassis.logging import get_logger
from chassis.replicas import OwnShare, build_address_target, split_host_and_port
from chassis.server.cpu import CpuPool
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
from services.search.adapters.snapshots import NoSnapshots, SnapshotFiles
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
from services.search.usecases.drop_deleted import DropDeletedPlaybooks
from services.search.usecases.embedders import Embedders
from services.search.usecases.evaluate import NAMED_VARIANTS, Quality, RankingVariant, evaluate, read_retrieval_set
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

log = get_logger(__name__)


def build(settings: SearchSettings, peers: chassis.Peers) -> chassis.Service:
    """Return search as a service of the chassis; it calls the curator. Raises `BadSetting` (G-08, S-27, S-38)."""
    closing = AsyncExitStack()
    scoring_pool = CpuPool("search-score", workers=settings.search_threads)
    embedding_pool = CpuPool("search-embed", workers=settings.embedding_threads)
    compile_pool = CpuPool("search-compile", workers=1)  # the feed and queries do not wait for a compiler
    with report_setting("HANSEI_SEARCH_DATABASE_URL"):
        database = open_collection_database(settings.search_database_url)
        cache_database = open_embedding_database(settings.search_database_url)
    model = connect_embedding_model(settings, embedding_pool, closing, remaining=deadlines.get_remaining)
    log.info("embedding model loaded", model=model.model_id)
    cache = TableStore(schema.embeddings, cache_database.read, cache_database.write)
    embedder = TextEmbedder(model, cache, count=metrics.count_embeddings)
    tokenize, variant = _get_tokenizer(settings), settings.bm25
    loops = LoopsInUse()
    loader = LoopsLoader(loops)
    index_factory = _create_index_factory(settings, tokenize, loops)
    made_with = {"embedder": model.model_id, "tokenizer": settings.search_tokenizer}
    snapshots = _create_snapshots(settings, "", made_with, parse_bullet)

    def create_follower(dataset: str, embedder: TextEmbedder, snapshots: Snapshots[IndexedBullet]) -> PlaybookFollower:
        feed = CuratorFeed(peers.get_channel("curator"), embedder.model.model_id)
        return PlaybookFollower(dataset, feed, embedder, index_factory, snapshots, scoring_pool)

    async def connect_former_model(model_id: str) -> TextEmbedder | None:
        options = {"remaining": deadlines.get_remaining}
        former = await embedding_pool.run(connect_model_by_id, model_id, settings, embedding_pool, closing, **options)
        return TextEmbedder(former, cache) if former else None

    embedders = Embedders(embedder, connect_former_model)
    former_generations: dict[str, tuple[TextEmbedder, Snapshots[IndexedBullet]]] = {}

    def create_former(dataset: str) -> PlaybookFollower | None:
        generation = former_generations.pop(dataset, None)
        return None if generation is None else create_follower(dataset, *generation)

    async def find_former_generations() -> None:
        for dataset, model in (await embedding_pool.run(snapshots.find_former_models)).items():
            if (former := await embedders.get(model)) is None:
                log.warning(
                    "embedding model of the index is unavailable; rebuilding the index", dataset=dataset, model=model
                )
            else:
                log.info("searching the index of the previous model until the cut-over", dataset=dataset, model=model)
                former_snapshots = _create_snapshots(settings, "", {**made_with, "embedder": model}, parse_bullet)
                former_generations[dataset] = former, former_snapshots

    share = _create_own_share(settings)
    indexes = PlaybookIndexes(
        lambda dataset: create_follower(dataset, embedder, snapshots),
        settings.search_memory_bytes,
        create_former,
        is_first_owner=share.is_first_owner,
        release_seconds=settings.search_release_seconds,
        free_memory=lambda datasets: scoring_pool.run(_free_memory, snapshots, datasets),
    )
    metrics.observe_indexes(indexes)
    weight = VectorWeight(settings.search_alpha, settings.search_alpha_scaling)
    rank = RankEntries(embedder, cache_query_terms(tokenize), weight, settings.search_fusion, scoring_pool)
    servicer = SearchServicer(
        SearchPlaybook(indexes, rank, deadlines.get_remaining, max_page_bytes=settings.max_message_bytes // 2),
        RankBullets(embedder, rank, index_factory.create, scoring_pool),
        indexes,
        embedder,
        settings.search_tokenizer,
        decode_bullet,
        settings.playbook_budget_tokens,
    )

    def create_hybrid_chunks(collection: Collection) -> ChunkIndex:
        collection_snapshots = _create_snapshots(
            settings, "collections", {**made_with, "embedder": collection.model}, parse_chunk_ref
        )
        return HybridChunks(collection, index_factory, collection_snapshots, scoring_pool)

    backends: dict[Backend, Callable[[Collection], ChunkIndex]] = {Backend.HYBRID: create_hybrid_chunks}
    openings = [(database, "HANSEI_SEARCH_DATABASE_URL"), (cache_database, "HANSEI_SEARCH_DATABASE_URL")]
    if settings.search_qdrant:
        backends[Backend.QDRANT] = _connect_qdrant(settings, tokenize, variant, closing)
    if settings.search_pgvector:
        backends[Backend.PGVECTOR], chunk_database = _connect_pgvector(settings, tokenize, variant, closing)
        openings.append((chunk_database, "HANSEI_SEARCH_PGVECTOR"))

    def create_chunk_index(collection: Collection) -> ChunkIndex:
        if collection.backend not in backends:
            raise BackendMissing(collection.backend.name)
        return backends[collection.backend](collection)

    store = CollectionRepository(database)
    collections = CollectionIndexes(store, create_chunk_index, settings.search_max_collections)
    chunk = ChunkDocuments(embedders, tokenize, scoring_pool)
    put = PutDocuments(store, collections, chunk)
    collection_servicer = CollectionServicer(
        store,
        ManageCollections(store, collections, model.model_id, frozenset(backends)),
        put,
        LoadDocuments(store, put, chunk),
        SearchCollection(store, collections, embedders, rank),
    )

    async def start() -> None:
        for opening, setting in openings:
            await wait_until_open(opening.open, opening.url, setting, settings.database_wait_seconds)
        await find_former_generations()

    async def warm_up() -> None:
        """Prepare for the first searches: agents wait for them only some tenths of a second."""
        for dataset in await scoring_pool.run(snapshots.list_newest, WARM_INDEXES):
            indexes.get_index(dataset)
        if isinstance(model, PooledModel):  # a provider would charge for the text
            await embedder.embed_queries(["warm up"])

    async def compile_loops() -> None:
        await asyncio.sleep(settings.search_compile_after_seconds)
        await compile_pool.run(loader.load)
        # Objects that exist now will stay. A garbage collection of them would stop every call for a tenth of a second.
        gc.freeze()

    async def close() -> None:
        loader.stop()
        await indexes.save()
        await indexes.close()
        await collections.save_snapshots()
        await collections.close()
        await closing.aclose()
        await scoring_pool.close()
        await embedding_pool.close()
        await cache_database.close()
        await database.close()
        await compile_pool.close()

    return chassis.Service(
        name="search",
        registrations=[
            chassis.Registration(search_service_pb2_grpc.add_SearchServiceServicer_to_server, servicer),
            chassis.Registration(
                collection_service_pb2_grpc.add_CollectionServiceServicer_to_server, collection_servicer
            ),
        ],
        start=start,
        close=close,
        tasks={
            "compiled loops": compile_loops,
            "first searches": warm_up,
            "cut-over of collections": ReembedCollections(store, collections, embedder).__call__,
            "deleted playbooks": DropDeletedPlaybooks(
                CuratorFeed(peers.get_channel("curator"), model.model_id),
                snapshots,
                scoring_pool,
                settings.search_snapshot_seconds,
            ).__call__,
            "own share of datasets": share.run,
            "eviction of indexes": indexes.run_eviction,
            "maintenance of indexes": lambda: indexes.run_maintenance(settings.search_snapshot_seconds),
            "maintenance of collections": lambda: collections.run_maintenance(settings.search_snapshot_seconds),
        },
    )


def _create_own_share(settings: SearchSettings) -> OwnShare:
    """Return the datasets whose first owner is this process, as callers choose it."""
    ip, port = settings.search_own_ip, split_host_and_port(settings.listen_address)[1]
    return OwnShare("search", settings.replicas_address, build_address_target(ip, port) if ip else "")


def _create_snapshots(
    settings: SearchSettings, folder: str, made_with: Mapping[str, str], parse_item: Callable[[bytes], StoredItemT]
) -> SnapshotFiles[StoredItemT] | NoSnapshots[StoredItemT]:
    if settings.search_engine == "reference":
        return NoSnapshots()
    return SnapshotFiles(Path(settings.search_snapshot_dir, folder), made_with, parse_item)


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
) -> Callable[[Collection], ChunkIndex]:
    # The import of the client takes longer than all others.
    from services.search.adapters.qdrant import Qdrant, QdrantChunks

    qdrant = Qdrant(settings.search_qdrant, settings.search_qdrant_api_key.get_secret_value())
    closing.push_async_callback(qdrant.close)
    return lambda collection: QdrantChunks(collection, qdrant, tokenize, variant)


def _connect_pgvector(
    settings: SearchSettings, tokenize: Tokenizer, variant: Variant, closing: AsyncExitStack
) -> tuple[Callable[[Collection], ChunkIndex], Database]:
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
