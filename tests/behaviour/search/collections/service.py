"""A search service with collections, as its clients see it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hansei.search.v1 import collection_pb2, search_pb2
from hansei.search.v1 import collection_service_pb2 as pb

HYBRID, QDRANT = collection_pb2.COLLECTION_BACKEND_HYBRID, collection_pb2.COLLECTION_BACKEND_QDRANT
PGVECTOR = collection_pb2.COLLECTION_BACKEND_PGVECTOR
HASHING = "hashing-v1-1536"


TEXTS = {
    "retry": "Retry a failed call only when it is idempotent. Wait between the attempts.",
    "deadline": "Hand the deadline down to every call that is made on behalf of a caller.",
    "saisei": "再試行は冪等な呼び出しだけに行う。間隔をあけること。",
    "sleep": "Tests must not sleep: inject a clock instead.",
}


@dataclass(frozen=True)
class RunningSearch:
    """A running search service."""

    stub: Any
    backend: Any

    async def create(self, name: str = "c", **settings: Any) -> collection_pb2.Collection:
        request = pb.CreateCollectionRequest(name=name, backend=self.backend, **settings)
        response: pb.CreateCollectionResponse = await self.stub.CreateCollection(request)
        return response.collection

    async def put(self, *documents: collection_pb2.Document, collection: str = "c") -> pb.PutDocumentsResponse:
        request = pb.PutDocumentsRequest(collection=collection, documents=documents)
        response: pb.PutDocumentsResponse = await self.stub.PutDocuments(request)
        return response

    async def search(
        self, text: str = "", collection: str = "c", page_size: int = 0, page_token: str = "", **fields: Any
    ) -> pb.SearchCollectionResponse:
        query = collection_pb2.CollectionQuery(query_text=text, **fields)
        request = pb.SearchCollectionRequest(
            collection=collection, query=query, page_size=page_size, page_token=page_token
        )
        response: pb.SearchCollectionResponse = await self.stub.SearchCollection(request)
        return response

    async def find_ids(self, text: str = "", **fields: Any) -> list[str]:
        return [passage.document_id for passage in (await self.search(text, **fields)).results]

    async def collection(self, name: str = "c") -> collection_pb2.Collection:
        response: pb.GetCollectionResponse = await self.stub.GetCollection(pb.GetCollectionRequest(name=name))
        return response.collection

    async def ids(self, page_size: int = 0) -> AsyncIterator[list[str]]:
        token = ""
        while True:
            request = pb.ListDocumentsRequest(collection="c", page_size=page_size, page_token=token)
            page = await self.stub.ListDocuments(request)
            yield [document.id for document in page.documents]
            if not (token := page.next_page_token):
                return

    async def load(self, parts: Sequence[pb.LoadDocumentsRequest]) -> list[pb.LoadDocumentsResponse]:
        async def send() -> AsyncIterator[pb.LoadDocumentsRequest]:
            for part in parts:
                yield part

        return [response async for response in self.stub.LoadDocuments(send())]


def document(name: str, text: str = "", chunks: Sequence[Any] = (), **metadata: str) -> collection_pb2.Document:
    return collection_pb2.Document(id=name, text=text or TEXTS.get(name, ""), metadata=metadata, chunks=chunks)


def chunk(start: int, end: int, vector: Sequence[float], model: str = HASHING) -> collection_pb2.DocumentChunk:
    values = np.asarray(vector, "<f4").tobytes()
    embedding = search_pb2.Embedding(values=values, dimension=len(vector), model=model)
    return collection_pb2.DocumentChunk(start=start, end=end, embedding=embedding)


def direction(dimension: int, *values: float) -> list[float]:
    return [*values, *[0.0] * (dimension - len(values))]


def head(collection: str = "c") -> pb.LoadDocumentsRequest:
    return pb.LoadDocumentsRequest(head=pb.LoadHead(collection=collection))


def part(send: collection_pb2.Document) -> pb.LoadDocumentsRequest:
    return pb.LoadDocumentsRequest(document=send)
