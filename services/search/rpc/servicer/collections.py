"""The gRPC face of document collections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from chassis.errors import InvalidArgument
from chassis.server import validation
from hansei.search.v1 import collection_pb2, collection_service_pb2_grpc
from hansei.search.v1 import collection_service_pb2 as pb
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.search.domain.collection_errors import LoadWithoutHead
from services.search.rpc.convert import collections as convert
from services.search.rpc.servicer.pages import DEFAULT_PAGE, place_in_ranking, ranking_token
from services.search.usecases.load_documents import Arrived, LoadDocuments, Refused
from services.search.usecases.make_collections import MakeCollections
from services.search.usecases.ports import CollectionStore
from services.search.usecases.put_documents import PutDocuments
from services.search.usecases.search_collection import SearchCollection


class CollectionServicer(collection_service_pb2_grpc.CollectionServiceServicer):
    """Keeps and searches document collections."""

    def __init__(
        self,
        store: CollectionStore,
        make: MakeCollections,
        put: PutDocuments,
        load: LoadDocuments,
        search: SearchCollection,
    ) -> None:
        self._store = store
        self._make = make
        self._put = put
        self._load = load
        self._search = search

    async def CreateCollection(self, request: pb.CreateCollectionRequest, context: Any) -> pb.CreateCollectionResponse:
        """Makes a collection."""
        collection = await self._make.create(request.name, *convert.settings_from(request))
        return pb.CreateCollectionResponse(collection=convert.collection_message(collection))

    async def GetCollection(self, request: pb.GetCollectionRequest, context: Any) -> pb.GetCollectionResponse:
        """Reads a collection."""
        collection = await self._store.get(request.name)
        return pb.GetCollectionResponse(collection=convert.collection_message(collection))

    async def ListCollections(self, request: pb.ListCollectionsRequest, context: Any) -> pb.ListCollectionsResponse:
        """Lists the collections by name."""
        size = request.page_size or DEFAULT_PAGE
        (after,) = decode_page_token(request, str) or ("",)
        found = await self._store.page(after, size + 1, request.prefix)
        return pb.ListCollectionsResponse(
            collections=[convert.collection_message(collection) for collection in found[:size]],
            next_page_token=encode_page_token(request, found[size - 1].name) if len(found) > size else "",
        )

    async def DeleteCollection(self, request: pb.DeleteCollectionRequest, context: Any) -> pb.DeleteCollectionResponse:
        """Deletes a collection with all its documents."""
        return pb.DeleteCollectionResponse(documents=(await self._make.drop(request.name)).documents)

    async def PutDocuments(self, request: pb.PutDocumentsRequest, context: Any) -> pb.PutDocumentsResponse:
        """Adds or replaces documents."""
        documents = [convert.document_from(message) for message in request.documents]
        stored = await self._put(request.collection, documents)
        return pb.PutDocumentsResponse(
            stored=stored.stored,
            unchanged=stored.unchanged,
            chunks=stored.chunks,
            revision=stored.collection.revision,
        )

    async def GetDocument(self, request: pb.GetDocumentRequest, context: Any) -> pb.GetDocumentResponse:
        """Reads a document."""
        summary, text = await self._store.read(request.collection, request.id)
        return pb.GetDocumentResponse(summary=convert.summary_message(summary), text=text)

    async def ListDocuments(self, request: pb.ListDocumentsRequest, context: Any) -> pb.ListDocumentsResponse:
        """Lists documents by id."""
        size = request.page_size or DEFAULT_PAGE
        (after,) = decode_page_token(request, str) or ("",)
        found = await self._store.summaries(request.collection, after, size + 1)
        return pb.ListDocumentsResponse(
            documents=[convert.summary_message(summary) for summary in found[:size]],
            next_page_token=encode_page_token(request, found[size - 1].id) if len(found) > size else "",
        )

    async def DeleteDocuments(self, request: pb.DeleteDocumentsRequest, context: Any) -> pb.DeleteDocumentsResponse:
        """Deletes documents by id."""
        deleted, collection = await self._put.delete(request.collection, list(request.ids))
        return pb.DeleteDocumentsResponse(deleted=deleted, revision=collection.revision)

    async def LoadDocuments(
        self, requests: AsyncIterator[pb.LoadDocumentsRequest], context: Any
    ) -> AsyncIterator[pb.LoadDocumentsResponse]:
        """Puts any number of documents, and tells of each batch when it is done."""
        first = await anext(requests, None)
        if first is None or not first.HasField("head"):
            raise LoadWithoutHead
        async for progress in self._load(first.head.collection, _arriving(requests)):
            yield convert.progress_message(progress)

    async def SearchCollection(self, request: pb.SearchCollectionRequest, context: Any) -> pb.SearchCollectionResponse:
        """Ranks the chunks of a collection."""
        found = await self._search(
            request.collection,
            convert.ask_from(request.query),
            request.page_size,
            place_in_ranking(request),
        )
        answer = found.page.answer
        response = pb.SearchCollectionResponse(
            revision=answer.revision,
            embedding_model=answer.model,
            approximate=answer.ranking.preselected,
            next_page_token=ranking_token(request, found.page.following),
        )
        for scored, text in found.results:
            convert.write_passage(response.results.add(), scored, text)
        return response


async def _arriving(requests: AsyncIterator[pb.LoadDocumentsRequest]) -> AsyncIterator[Arrived]:
    async for request in requests:
        if not request.HasField("document"):
            raise LoadWithoutHead
        yield _arrived(request.document)


def _arrived(message: collection_pb2.Document) -> Arrived:
    try:
        validation.check(message)
        return convert.document_from(message)
    except InvalidArgument as error:
        return Refused(message.id, error)
