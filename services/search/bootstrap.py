"""Puts search together."""

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
from chassis.server.cpu import CpuPool
from hansei.search.v1 import collection_service_pb2_grpc, search_service_pb2_grpc
from libs.embedding.connect import connect_embedding_model, connect_model_by_id
from libs.embedding.embedder import TextEmbedder
from libs.embedding.store import TableStore
from libs.storage.startup import report_setting, wait_until_open
from services.search.adapters import metrics as measures
from services.search.adapters.loops import LoopsLoader, load_loops
from services.search.adapters.peers import CuratorFeed, bullet_from, bullet_of_bytes
from services.search.adapters.snapshots import NoSnapshots, SnapshotFiles
from services.search.adapters.sql import schema
from services.search.adapters.sql.repository import CollectionRepository, collection_database, embedding_database
from services.search.domain.bm25 import Variant
from services.search.domain.bullet import Bullet
from services.search.domain.collection import Backend, Collection, chunk_of_bytes
from services.search.domain.collection_errors import BackendMissing
from services.search.domain.errors import UnknownTokenizer
from services.search.domain.index import HybridIndex
from services.search.domain.neighbours import Neighbours
from services.search.domain.postings import Int64s
from services.search.domain.snapshot import KeptT, Snapshots
from services.search.domain.tokenizers import Tokenizer, remembering, tokenizer
from services.search.domain.vector_weight import VectorWeight
from services.search.domain.vectors import Float32s
from services.search.domain.view import LoopsInUse, Rules
from services.search.rpc.servicer.collections import CollectionServicer
from services.search.rpc.servicer.search import SearchServicer
from services.search.settings import SearchSettings
from services.search.usecases.chunk_index import ChunkIndex
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.cut_documents import CutDocuments
from services.search.usecases.embedders import Embedders
from services.search.usecases.evaluate import NAMED_VARIANTS, Quality, RankingVariant, evaluate, read_retrieval_set
from services.search.usecases.follow_playbook import FollowedPlaybook
from services.search.usecases.hybrid_chunks import HybridChunks
from services.search.usecases.load_documents import LoadDocuments
from services.search.usecases.make_collections import MakeCollections
from services.search.usecases.page_playbook import PagePlaybook
from services.search.usecases.playbook_indexes import PlaybookIndexes
from services.search.usecases.ports import IndexFactory
from services.search.usecases.put_documents import PutDocuments
from services.search.usecases.rank_bullets import RankBullets
from services.search.usecases.reembed_collections import ReembedCollections
from services.search.usecases.search_collection import SearchCollection
from services.search.usecases.search_playbook import RankEntries, SearchPlaybook

log = get_logger(__name__)


def build(settings: SearchSettings, peers: chassis.Peers) -> chassis.Service:
    """Search as a service of the chassis; it calls the curator. Raises `BadSetting` (G-08, S-27, S-38)."""
    closing = AsyncExitStack()
    scoring = CpuPool("search-score", workers=settings.search_threads)
    modelling = CpuPool("search-embed", workers=settings.embedding_threads)
    compiling = CpuPool("search-compile", workers=1)  # the feed and queries do not wait for a compiler
    with report_setting("HANSEI_SEARCH_DATABASE_URL"):
        database = collection_database(settings.search_database_url)
        cache_database = embedding_database(settings.search_database_url)
    model = connect_embedding_model(settings, modelling, closing, remaining=deadlines.remaining)
    log.info("embedding model loaded", model=model.model_id)
    cache = TableStore(schema.embeddings, cache_database.read, cache_database.write)
    embed = TextEmbedder(model, cache, count=measures.embedded)
    tokenize, variant = _tokenizer_of(settings), settings.bm25
    weight = VectorWeight(settings.search_alpha, settings.search_alpha_scaling)
    computing = LoopsInUse()
    loader = LoopsLoader(computing)
    make = _index_factory(settings, tokenize, computing)
    made_with = {"embedder": model.model_id, "tokenizer": settings.search_tokenizer}
    snapshots = _snapshots(settings, "", made_with, bullet_of_bytes)

    def follow_with(dataset: str, embed: TextEmbedder, snapshots: Snapshots[Bullet]) -> FollowedPlaybook:
        feed = CuratorFeed(peers.channel("curator"), embed.model.model_id)
        return FollowedPlaybook(dataset, feed, embed, make, snapshots, scoring)

    async def other(model_id: str) -> TextEmbedder | None:
        options = {"remaining": deadlines.remaining}
        former = await modelling.run(connect_model_by_id, model_id, settings, modelling, closing, **options)
        return TextEmbedder(former, cache) if former else None

    embedders = Embedders(embed, other)
    before: dict[str, tuple[TextEmbedder, Snapshots[Bullet]]] = {}

    def predecessor(dataset: str) -> FollowedPlaybook | None:
        if dataset not in before:
            return None
        return follow_with(dataset, *before.pop(dataset))

    async def find_predecessors() -> None:
        for dataset, model in (await modelling.run(snapshots.embedders)).items():
            if (embed := await embedders.of(model)) is None:
                log.warning(
                    "embedding model of the index is unavailable; rebuilding the index", dataset=dataset, model=model
                )
            else:
                log.info(
                    "index of the former model answers until its texts are embedded again", dataset=dataset, model=model
                )
                made = {**made_with, "embedder": model}
                before[dataset] = embed, _snapshots(settings, "", made, bullet_of_bytes)

    indexes = PlaybookIndexes(
        lambda dataset: follow_with(dataset, embed, snapshots), settings.search_max_datasets, predecessor
    )
    measures.watch(indexes.followed)
    rank = RankEntries(embed, remembering(tokenize), weight, settings.search_fusion, scoring)
    search = SearchPlaybook(indexes, rank, deadlines.remaining)
    servicer = SearchServicer(
        search,
        PagePlaybook(search),
        RankBullets(embed, rank, make.create, scoring),
        indexes,
        embed,
        settings.search_tokenizer,
        bullet_from,
    )

    in_qdrant = _qdrant_chunks(settings, tokenize, variant, closing)

    def chunk_index(collection: Collection) -> ChunkIndex:
        if collection.backend is Backend.HYBRID:
            made = {**made_with, "embedder": collection.model}
            snapshots = _snapshots(settings, "collections", made, chunk_of_bytes)
            return HybridChunks(collection, make, snapshots, scoring)
        return in_qdrant(collection)

    store = CollectionRepository(database)
    backends = frozenset(Backend) if settings.search_qdrant else frozenset({Backend.HYBRID})
    collections = CollectionIndexes(store, chunk_index, settings.search_max_collections)
    cut = CutDocuments(embedders, tokenize, scoring)
    put = PutDocuments(store, collections, cut)
    collection_servicer = CollectionServicer(
        store,
        MakeCollections(store, collections, embed, backends),
        put,
        LoadDocuments(store, put, cut),
        SearchCollection(store, collections, embedders, rank),
    )

    async def start() -> None:
        for opening in (database, cache_database):
            await wait_until_open(
                opening.open, opening.url, "HANSEI_SEARCH_DATABASE_URL", settings.database_wait_seconds
            )
        await find_predecessors()

    async def compile_loops() -> None:
        await asyncio.sleep(settings.search_compile_after_seconds)
        await compiling.run(loader.load)
        # All that is there now stays. To look through it for garbage would stop every call for a tenth of a second.
        gc.freeze()

    async def close() -> None:
        loader.stop()
        await indexes.save()
        await indexes.close()
        await collections.keep()
        await collections.close()
        await closing.aclose()
        await scoring.close()
        await modelling.close()
        await cache_database.close()
        await database.close()
        await compiling.close()

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
            "collections of other models": ReembedCollections(store, collections, embed).__call__,
            "upkeep": lambda: indexes.keep_up(settings.search_snapshot_seconds),
            "upkeep of collections": lambda: collections.keep_up(settings.search_snapshot_seconds),
        },
    )


def _snapshots(
    settings: SearchSettings, folder: str, made_with: Mapping[str, str], unpack: Callable[[bytes], KeptT]
) -> SnapshotFiles[KeptT] | NoSnapshots[KeptT]:
    if settings.search_engine == "reference":
        return NoSnapshots()
    return SnapshotFiles(Path(settings.search_snapshot_dir, folder), made_with, unpack)


def _index_factory(settings: SearchSettings, tokenize: Tokenizer, computing: LoopsInUse) -> IndexFactory[Any]:
    """Return what makes indexes of the engine that the settings choose."""
    if settings.search_engine == "reference":
        from services.search.adapters.reference import ReferenceIndex  # with FAISS and rank_bm25

        def create(dimension: int) -> ReferenceIndex[Any]:
            return ReferenceIndex(dimension, tokenize, settings.bm25)

        return IndexFactory(create, lambda state: create(0))
    probes = settings.search_probes

    def build_neighbours(units: Float32s, rows: Int64s, covered: int) -> Neighbours:
        from services.search.adapters.faiss_neighbours import FaissNeighbours  # few indexes are so large

        return FaissNeighbours.build(units, rows, covered, probes)

    def restore_neighbours(arrays: Mapping[str, NDArray[Any]]) -> Neighbours:
        from services.search.adapters.faiss_neighbours import FaissNeighbours

        return FaissNeighbours.restore(arrays, probes)

    rules = Rules(settings.bm25, computing, settings.search_exact_limit, build_neighbours)
    return IndexFactory(
        lambda dimension: HybridIndex(dimension, tokenize, rules),
        lambda state: HybridIndex.restore(state, tokenize, rules, restore_neighbours),
    )


def _qdrant_chunks(
    settings: SearchSettings, tokenize: Tokenizer, variant: Variant, closing: AsyncExitStack
) -> Callable[[Collection], ChunkIndex]:
    if not settings.search_qdrant:

        def missing(collection: Collection) -> ChunkIndex:
            raise BackendMissing

        return missing
    # Its client takes longer to import than all the rest.
    from services.search.adapters.qdrant import Qdrant, QdrantChunks

    qdrant = Qdrant(settings.search_qdrant, settings.search_qdrant_api_key.get_secret_value())
    closing.push_async_callback(qdrant.close)
    return lambda collection: QdrantChunks(collection, qdrant, tokenize, variant)


def _tokenizer_of(settings: SearchSettings) -> Tokenizer:
    try:
        return tokenizer(settings.search_tokenizer)
    except UnknownTokenizer as error:
        raise chassis.BadSetting(f"SEARCH_TOKENIZER: {error}") from error


async def evaluate_file(settings: SearchSettings, path: Path, variants: Sequence[str] = ()) -> dict[str, Quality]:
    """The retrieval quality of the service's defaults (`default`) and of named variants over a file.

    Raises `BadRetrievalSet`, `BadSetting`, `EmbeddingFailed`, and `KeyError` for a variant that is not in
    `NAMED_VARIANTS`.
    """
    retrieval_set = read_retrieval_set(path)
    chosen = {
        "default": RankingVariant(
            settings.search_tokenizer,
            settings.bm25,
            VectorWeight(settings.search_alpha, settings.search_alpha_scaling),
            settings.search_fusion,
        )
    }
    chosen.update((name, NAMED_VARIANTS[name]) for name in variants)
    database = embedding_database(settings.search_database_url)
    pool = CpuPool("search-embed", workers=settings.embedding_threads)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(database.close)
        closing.push_async_callback(pool.close)
        await database.open()
        model = connect_embedding_model(settings, pool, closing, remaining=deadlines.remaining)
        cache = TableStore(schema.embeddings, database.read, database.write)
        embed = TextEmbedder(model, cache)
        return await evaluate(retrieval_set, embed, LoopsInUse(load_loops()), chosen)
