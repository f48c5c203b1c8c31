"""The services the planner calls: search for hits and embeddings, the curator for the names of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chassis.channels import Peers
from chassis.errors import NotFound
from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from hansei.search.v1 import (
    collection_pb2,
    collection_service_pb2,
    collection_service_pb2_grpc,
    search_pb2,
    search_service_pb2,
    search_service_pb2_grpc,
)
from services.planner.domain.results import Hit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MIN_CONFIDENCE = 0.3
_PAGE = 1_000
_NO_SUCH_COLLECTION = "COLLECTION_NOT_FOUND"


class KnowledgeSearch:
    """The default search backend: collections are those of documents, and datasets, whose hits are bullets (P-27).

    Documents come first where both have one name: a playbook is there as soon as somebody learns, a collection only
    when somebody made it to be searched.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def list_collections(self, prefix: str = "") -> Sequence[str]:
        """The curator's datasets, then the document collections, each name once. Raises `HanseiError`."""
        return list(dict.fromkeys([*await self._datasets(prefix), *await self._documents(prefix)]))

    async def search(self, query: str, collection: str, limit: int, score_threshold: float) -> Sequence[Hit]:
        """What is found whose unscaled cosine reaches the threshold, best first (P-28). Raises `HanseiError`."""
        try:
            hits = await self._chunks(query, collection, limit)
        except NotFound as error:
            if error.reason != _NO_SUCH_COLLECTION:
                raise
            hits = await self._bullets(query, collection, limit)
        return [hit for hit in hits if hit.score >= score_threshold]

    async def _datasets(self, prefix: str) -> list[str]:
        playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(self._peers.channel("curator"))
        names: list[str] = []
        token = ""
        while True:
            page = await playbooks.ListDatasets(
                playbook_service_pb2.ListDatasetsRequest(page_size=_PAGE, page_token=token, prefix=prefix)
            )
            names.extend(dataset.name for dataset in page.datasets)
            token = page.next_page_token
            if not token:
                return names

    async def _documents(self, prefix: str) -> list[str]:
        names: list[str] = []
        token = ""
        while True:
            request = collection_service_pb2.ListCollectionsRequest(page_size=_PAGE, page_token=token, prefix=prefix)
            page = await self._collections.ListCollections(request)
            names.extend(collection.name for collection in page.collections)
            token = page.next_page_token
            if not token:
                return names

    async def _chunks(self, query: str, collection: str, limit: int) -> list[Hit]:
        asked = collection_pb2.CollectionQuery(query_text=query, top_k=limit)
        request = collection_service_pb2.SearchCollectionRequest(collection=collection, query=asked)
        found = await self._collections.SearchCollection(request)
        return [
            Hit(
                id=f"{passage.document_id}#{passage.chunk}",
                content=passage.text,
                source=passage.metadata.get("source") or passage.document_id,
                score=_score(passage.raw_cosine),
            )
            for passage in found.results
        ]

    async def _bullets(self, query: str, dataset: str, limit: int) -> list[Hit]:
        stub: Any = search_service_pb2_grpc.SearchServiceStub(self._peers.channel("search"))
        found = await stub.Search(
            search_service_pb2.SearchRequest(
                dataset=dataset,
                query=search_pb2.SearchQuery(query_text=query, top_k=limit, min_confidence=_MIN_CONFIDENCE),
            )
        )
        return [
            Hit(
                id=result.bullet.id,
                content=result.bullet.content,
                source=result.bullet.id,
                score=_score(result.raw_cosine),
            )
            for result in found.results
        ]

    @property
    def _collections(self) -> Any:
        return collection_service_pb2_grpc.CollectionServiceStub(self._peers.channel("search"))


def _score(cosine: float) -> float:
    return min(1.0, max(0.0, cosine))


class SearchEmbedder:
    """Vectors from the search service's embedder."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text. Raises `HanseiError`."""
        import numpy as np  # answers are compared by vectors only where a model gives several

        stub: Any = search_service_pb2_grpc.SearchServiceStub(self._peers.channel("search"))
        reply = await stub.Embed(
            search_service_pb2.EmbedRequest(texts=texts, purpose=search_service_pb2.EMBED_PURPOSE_DOCUMENT)
        )
        return np.stack([np.frombuffer(each.values, dtype="<f4") for each in reply.embeddings])
