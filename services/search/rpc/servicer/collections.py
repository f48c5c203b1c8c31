"""The gRPC servicer of document collections."""

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
from services.search.rpc.convert.pages import DEFAULT_PAGE, decode_cursor, encode_cursor
from services.search.usecases.load_documents import LoadDocuments, LoadItem, RejectedDocument
from services.search.usecases.manage_collections import ManageCollections
from services.search.usecases.ports import CollectionStore
from services.search.usecases.put_documents import PutDocuments
from services.search.usecases.search_collection import SearchCollection


class CollectionServicer(collection_service_pb2_grpc.CollectionServiceServicer):
    """Stores and searches document collections."""

    def __init__(
        self,
        store: CollectionStore,
        manage: ManageCollections,
        put: PutDocuments,
        load: LoadDocuments,
        search: SearchCollection,
    ) -> None:
        self._store = store
        self._manage = manage
        self._put = put
        self._load = load
        self._search = search

    async def CreateCollection(self, request: pb.CreateCollectionRequest, context: Any) -> pb.CreateCollectionResponse:
        """Create a collection."""
        collection = await self._manage.create(request.name, *convert.decode_settings(request))
        return pb.CreateCollectionResponse(collection=convert.encode_collection(collection))

    async def GetCollection(self, request: pb.GetCollectionRequest, context: Any) -> pb.GetCollectionResponse:
        """Return a collection."""
        collection = await self._store.get(request.name)
        return pb.GetCollectionResponse(collection=convert.encode_collection(collection))

    async def ListCollections(self, request: pb.ListCollectionsRequest, context: Any) -> pb.ListCollectionsResponse:
        """Return the collections by name."""
        size = request.page_size or DEFAULT_PAGE
        (after,) = decode_page_token(request, str) or ("",)
        page = await self._store.list_collections(after, size + 1, request.prefix)
        return pb.ListCollectionsResponse(
            collections=[convert.encode_collection(collection) for collection in page[:size]],
            next_page_token=encode_page_token(request, page[size - 1].name) if len(page) > size else "",
        )

    async def DeleteCollection(self, request: pb.DeleteCollectionRequest, context: Any) -> pb.DeleteCollectionResponse:
        """Delete a collection with all its documents."""
        return pb.DeleteCollectionResponse(documents=(await self._manage.drop(request.name)).documents)

    async def PutDocuments(self, request: pb.PutDocumentsRequest, context: Any) -> pb.PutDocumentsResponse:
        """Add or replace documents."""
        documents = [convert.decode_document(message) for message in request.documents]
        written = await self._put(request.collection, documents)
        return pb.PutDocumentsResponse(
            stored=written.stored,
            unchanged=written.unchanged,
            chunks=written.chunks,
            revision=written.collection.revision,
        )

    async def GetDocument(self, request: pb.GetDocumentRequest, context: Any) -> pb.GetDocumentResponse:
        """Return a document."""
        summary, text = await self._store.read_document(request.collection, request.id)
        return pb.GetDocumentResponse(summary=convert.encode_summary(summary), text=text)

    async def ListDocuments(self, request: pb.ListDocumentsRequest, context: Any) -> pb.ListDocumentsResponse:
        """Return the documents by id."""
        size = request.page_size or DEFAULT_PAGE
        (after,) = decode_page_token(request, str) or ("",)
        page = await self._store.list_documents(request.collection, after, size + 1)
        return pb.ListDocumentsResponse(
            documents=[convert.encode_summary(summary) for summary in page[:size]],
            next_page_token=encode_page_token(request, page[size - 1].id) if len(page) > size else "",
        )

    async def DeleteDocuments(self, request: pb.DeleteDocumentsRequest, context: Any) -> pb.DeleteDocumentsResponse:
        """Delete documents by id."""
        deleted, collection = await self._put.delete(request.collection, list(request.ids))
        return pb.DeleteDocumentsResponse(deleted=deleted, revision=collection.revision)

    async def LoadDocuments(
        self, requests: AsyncIterator[pb.LoadDocumentsRequest], context: Any
    ) -> AsyncIterator[pb.LoadDocumentsResponse]:
        """Put any number of documents; send a response after each batch."""
        first = await anext(requests, None)
        if first is None or not first.HasField("head"):
            raise LoadWithoutHead
        async for progress in self._load(first.head.collection, _decode_items(requests)):
            yield convert.encode_progress(progress)

    async def SearchCollection(self, request: pb.SearchCollectionRequest, context: Any) -> pb.SearchCollectionResponse:
        """Rank the chunks of a collection."""
        found = await self._search(
            request.collection,
            convert.decode_query(request.query),
            request.page_size,
            decode_cursor(request),
        )
        ranked = found.page.response
        response = pb.SearchCollectionResponse(
            revision=ranked.revision,
            embedding_model=ranked.model,
            approximate=ranked.ranking.preselected,
            alpha=ranked.ranking.alpha,
            next_page_token=encode_cursor(request, found.page.next_cursor),
        )
        for scored, passage in found.results:
            convert.write_passage(response.results.add(), scored, passage)
        return response


async def _decode_items(requests: AsyncIterator[pb.LoadDocumentsRequest]) -> AsyncIterator[LoadItem]:
    async for request in requests:
        if not request.HasField("document"):
            raise LoadWithoutHead
        yield _decode_item(request.document)


def _decode_item(message: collection_pb2.Document) -> LoadItem:
    try:
        validation.check(message)
        return convert.decode_document(message)
    except InvalidArgument as error:
        return RejectedDocument(message.id, error)
