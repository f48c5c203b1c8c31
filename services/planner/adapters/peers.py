"""Clients of the services that the planner calls: search for hits and embeddings, the curator for datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chassis.channels import Peers
from chassis.errors import NotFound
from chassis.pages import iterate_pages
from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from hansei.search.v1 import (
    collection_pb2,
    collection_service_pb2,
    collection_service_pb2_grpc,
    search_pb2,
    search_service_pb2,
    search_service_pb2_grpc,
)
from services.planner.domain.confidence import clamp01
from services.planner.domain.results import Hit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PAGE_SIZE = 1_000
_COLLECTION_NOT_FOUND = "COLLECTION_NOT_FOUND"


class KnowledgeSearch:
    """The default search backend: document collections, and datasets with bullets as hits (P-27).

    A document collection precedes a dataset of the same name: a playbook exists as soon as an agent learns, a
    collection only if somebody created it to be searched.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def list_collections(self, prefix: str = "") -> Sequence[str]:
        """Return the curator's datasets, then the document collections, each name once. Raises HanseiError."""
        return list(dict.fromkeys([*await self._list_datasets(prefix), *await self._search_documents(prefix)]))

    async def search(self, query: str, collection: str, limit: int, score_threshold: float) -> Sequence[Hit]:
        """Return the hits with an unscaled cosine of at least the threshold, best first (P-28). Raises HanseiError."""
        try:
            hits = await self._search_chunks(query, collection, limit)
        except NotFound as error:
            if error.reason != _COLLECTION_NOT_FOUND:
                raise
            hits = await self._search_bullets(query, collection, limit)
        return [hit for hit in hits if hit.score >= score_threshold]

    async def _list_datasets(self, prefix: str) -> list[str]:
        playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(self._peers.get_channel("curator"))
        request = playbook_service_pb2.ListDatasetsRequest(page_size=_PAGE_SIZE, prefix=prefix)
        pages = iterate_pages(playbooks.ListDatasets, request)
        return [dataset.name async for page in pages for dataset in page.datasets]

    async def _search_documents(self, prefix: str) -> list[str]:
        request = collection_service_pb2.ListCollectionsRequest(page_size=_PAGE_SIZE, prefix=prefix)
        pages = iterate_pages(self._collections.ListCollections, request)
        return [collection.name async for page in pages for collection in page.collections]

    async def _search_chunks(self, query: str, collection: str, limit: int) -> list[Hit]:
        collection_query = collection_pb2.CollectionQuery(query_text=query, top_k=limit)
        request = collection_service_pb2.SearchCollectionRequest(collection=collection, query=collection_query)
        response = await self._collections.SearchCollection(request)
        return [
            Hit(
                id=f"{passage.document_id}#{passage.chunk}",
                content=passage.text,
                source=passage.metadata.get("source") or passage.document_id,
                score=clamp01(passage.raw_cosine),
            )
            for passage in response.results
        ]

    async def _search_bullets(self, query: str, dataset: str, limit: int) -> list[Hit]:
        stub: Any = search_service_pb2_grpc.SearchServiceStub(self._peers.get_channel("search"))
        # Without a `min_confidence` of its own, the default filter of search applies: 0.3 of the smoothed votes (P-27).
        bullet_query = search_pb2.SearchQuery(query_text=query, top_k=limit)
        request = search_service_pb2.SearchRequest(dataset=dataset, query=bullet_query, allow_missing=True)
        response = await stub.Search(request)
        return [
            Hit(id=bullet.id, content=bullet.content, source=bullet.id, score=clamp01(result.raw_cosine))
            for result in response.results
            for bullet in [result.bullet]
        ]

    @property
    def _collections(self) -> Any:
        return collection_service_pb2_grpc.CollectionServiceStub(self._peers.get_channel("search"))


class SearchEmbedder:
    """Embeds texts with the model of the search service."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of the texts, shape (n, d), float32. Raises HanseiError."""
        import numpy as np  # takes long to import, and is rarely needed

        stub: Any = search_service_pb2_grpc.SearchServiceStub(self._peers.get_channel("search"))
        reply = await stub.Embed(
            search_service_pb2.EmbedRequest(texts=texts, purpose=search_service_pb2.EMBED_PURPOSE_DOCUMENT)
        )
        return np.stack([np.frombuffer(embedding.values, dtype="<f4") for embedding in reply.embeddings])
