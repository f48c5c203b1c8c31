"""The services of `hansei.search.v1`."""

from __future__ import annotations

from hansei.client.calls import M, ServiceClient, bind_two_streams, bind_unary
from hansei.search.v1 import collection_service_pb2 as collection
from hansei.search.v1 import search_service_pb2 as index


class SearchServiceClient(ServiceClient[M]):
    """Rank bullets and embed texts."""

    search = bind_unary(index.SearchRequest, index.SearchResponse)
    batch_search = bind_unary(index.BatchSearchRequest, index.BatchSearchResponse)
    rank_bullets = bind_unary(index.RankBulletsRequest, index.RankBulletsResponse)
    get_status = bind_unary(index.GetIndexStatusRequest, index.GetIndexStatusResponse)
    embed = bind_unary(index.EmbedRequest, index.EmbedResponse)


class CollectionServiceClient(ServiceClient[M]):
    """Store document collections and search their chunks."""

    create = bind_unary(collection.CreateCollectionRequest, collection.CreateCollectionResponse)
    get = bind_unary(collection.GetCollectionRequest, collection.GetCollectionResponse)
    list_all = bind_unary(collection.ListCollectionsRequest, collection.ListCollectionsResponse)
    delete = bind_unary(collection.DeleteCollectionRequest, collection.DeleteCollectionResponse)
    put_documents = bind_unary(collection.PutDocumentsRequest, collection.PutDocumentsResponse)
    get_document = bind_unary(collection.GetDocumentRequest, collection.GetDocumentResponse)
    list_documents = bind_unary(collection.ListDocumentsRequest, collection.ListDocumentsResponse)
    delete_documents = bind_unary(collection.DeleteDocumentsRequest, collection.DeleteDocumentsResponse)
    load_documents = bind_two_streams(collection.LoadDocumentsRequest, collection.LoadDocumentsResponse)
    search = bind_unary(collection.SearchCollectionRequest, collection.SearchCollectionResponse)
