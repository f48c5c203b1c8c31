"""The search service: which bullets come near a lesson, and vectors of texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from chassis.errors import DeadlineExceeded, ResourceExhausted, Unavailable
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from services.curator.domain.errors import SimilarityUnavailable
from services.curator.usecases.vectors import Embedded

if TYPE_CHECKING:
    from services.curator.usecases.vectors import Vector

TEXTS_AT_ONCE = 256
_NOT_ANSWERING = (Unavailable, DeadlineExceeded, ResourceExhausted)


class SearchPeer:
    """Asks the search service over gRPC. `channel` opens the channel to it, when it is first needed."""

    def __init__(self, channel: Callable[[], Any]) -> None:
        self._channel = channel

    async def nearest(self, dataset: str, texts: Sequence[str], limit: int, revision: int) -> list[list[str]]:
        """For each text the ids of the `limit` bullets with the highest cosine, at `revision` or later, best first.

        Raises SimilarityUnavailable.
        """
        return await self._ranked(dataset, texts, limit, revision, alpha=1.0)

    async def best(self, dataset: str, texts: Sequence[str], limit: int, revision: int) -> list[list[str]]:
        """For each text the ids of the `limit` bullets that search ranks highest, best first.

        Raises SimilarityUnavailable.
        """
        return await self._ranked(dataset, texts, limit, revision, alpha=None)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of `texts`, of unit length or zero. Raises SimilarityUnavailable."""
        messages: list[search_pb2.Embedding] = []
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            some = texts[start : start + TEXTS_AT_ONCE]
            messages += (await self._call("Embed", search_service_pb2.EmbedRequest(texts=some))).embeddings
        models = {message.model for message in messages}
        if len(models) > 1:
            raise SimilarityUnavailable("the search service is changing its embedder")
        return Embedded("".join(models), [_unit(message) for message in messages])

    async def _ranked(
        self, dataset: str, texts: Sequence[str], limit: int, revision: int, *, alpha: float | None
    ) -> list[list[str]]:
        queries = [
            search_pb2.SearchQuery(query_text=text, top_k=limit, min_confidence=0, alpha=alpha) for text in texts
        ]
        request = search_service_pb2.BatchSearchRequest(dataset=dataset, queries=queries, min_revision=revision)
        responses = (await self._call("BatchSearch", request)).responses
        return [[result.bullet.id for result in response.results] for response in responses]

    async def _call(self, method: str, request: Any) -> Any:
        stub: Any = search_service_pb2_grpc.SearchServiceStub(self._channel())
        try:
            return await getattr(stub, method)(request)
        except _NOT_ANSWERING as error:
            raise SimilarityUnavailable(error.message) from error


def _unit(message: search_pb2.Embedding) -> Vector:
    import numpy as np  # many curators never compare by vectors: they follow others, or compare by words

    vector = np.frombuffer(message.values, dtype="<f4").astype(np.float32)
    length = float(np.linalg.norm(vector))
    return (vector / length).astype(np.float32) if length else vector
