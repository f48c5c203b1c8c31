"""The services the planner calls: search for hits and embeddings, the curator for the names of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chassis.channels import Peers
from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from services.planner.domain.results import Hit

_MIN_CONFIDENCE = 0.3
_PAGE = 1_000


class PlaybookSearch:
    """The default search backend: collections are datasets, hits are bullets (P-27)."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def list_collections(self) -> Sequence[str]:
        """The curator's datasets. Raises `HanseiError`."""
        playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(self._peers.channel("curator"))
        names: list[str] = []
        token = ""
        while True:
            page = await playbooks.ListDatasets(
                playbook_service_pb2.ListDatasetsRequest(page_size=_PAGE, page_token=token)
            )
            names.extend(dataset.name for dataset in page.datasets)
            token = page.next_page_token
            if not token:
                return names

    async def search(self, query: str, collection: str, limit: int, score_threshold: float) -> Sequence[Hit]:
        """Bullets of a dataset whose unscaled cosine reaches the threshold, best first (P-28). Raises `HanseiError`."""
        stub: Any = search_service_pb2_grpc.SearchServiceStub(self._peers.channel("search"))
        found = await stub.Search(
            search_service_pb2.SearchRequest(
                dataset=collection,
                query=search_pb2.SearchQuery(query_text=query, top_k=limit, min_confidence=_MIN_CONFIDENCE),
            )
        )
        hits = [
            Hit(
                id=result.bullet.id,
                content=result.bullet.content,
                source=result.bullet.id,
                score=min(1.0, max(0.0, result.raw_cosine)),
            )
            for result in found.results
        ]
        return [hit for hit in hits if hit.score >= score_threshold]


class SearchEmbedder:
    """Vectors from the search service's embedder."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text. Raises `HanseiError`."""
        stub: Any = search_service_pb2_grpc.SearchServiceStub(self._peers.channel("search"))
        reply = await stub.Embed(
            search_service_pb2.EmbedRequest(texts=texts, purpose=search_service_pb2.EMBED_PURPOSE_DOCUMENT)
        )
        return np.stack([np.frombuffer(each.values, dtype="<f4") for each in reply.embeddings])
