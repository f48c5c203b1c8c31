"""Errors of collections.

NotFound
├── CollectionNotFound
└── DocumentNotFound
AlreadyExists
└── CollectionExists        a collection of that name has other settings
InvalidArgument
├── ChunkOverlapTooLarge
├── InvalidDocument         a document that cannot be stored
├── PutTooLarge             more text in one call than the limit
├── LoadWithoutHead         a load that does not begin with its head
└── PageTokenInvalid        a token of another list or query
FailedPrecondition
├── BackendMissing          the backend is not configured
└── ExtensionMissing        the database of the backend PGVECTOR lacks the extension
OutOfRange
└── PageExpired             the ranking of the page was evicted and has changed
ResourceExhausted
└── StoreFull               the disk is full; nothing of the call was written
Unavailable
├── StoreUnavailable        the database does not answer
├── EmbedderChanged         the model of the collection's vectors is unavailable
└── BackendUnreachable      Qdrant, or the database of the backend PGVECTOR, does not answer
DataLoss
└── StoreCorrupt            the database is damaged
"""

from __future__ import annotations

from chassis.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    OutOfRange,
    Unavailable,
    Violation,
    shorten,
)

RETRY_AFTER_SECONDS = 1.0


class CollectionNotFound(NotFound):
    """No collection has this name."""

    reason = "COLLECTION_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f'collection "{shorten(name)}" does not exist: make it with CreateCollection')


class DocumentNotFound(NotFound):
    """The collection holds no document with this id."""

    reason = "DOCUMENT_NOT_FOUND"

    def __init__(self, collection: str, document_id: str) -> None:
        super().__init__(f'collection "{collection}" has no document "{shorten(document_id)}"')


class CollectionExists(AlreadyExists):
    """The name is taken by a collection with other settings."""

    reason = "COLLECTION_EXISTS"

    def __init__(self, name: str, setting: str, present: object, requested: object) -> None:
        super().__init__(
            f'collection "{name}" exists with {setting} {present}, not {requested}: '
            "delete it first, or choose another name"
        )


class ChunkOverlapTooLarge(InvalidArgument):
    """Chunks would contain more overlap than new text."""

    reason = "CHUNK_OVERLAP_TOO_LARGE"

    def __init__(self, overlap: int, tokens: int) -> None:
        message = f"chunk_overlap {overlap} must be at most half of chunk_tokens {tokens}"
        super().__init__(message, violations=[Violation("chunk_overlap", message)])


class InvalidDocument(InvalidArgument):
    """A document that cannot be stored: the field and the broken rule."""

    reason = "INVALID_DOCUMENT"

    def __init__(self, document_id: str, field: str, rule: str) -> None:
        message = f'document "{shorten(document_id)}": {field} {rule}'
        super().__init__(message, violations=[Violation(field, message)])


class PutTooLarge(InvalidArgument):
    """More text than the limit of one call."""

    reason = "PUT_TOO_LARGE"

    def __init__(self, characters: int, limit: int) -> None:
        message = f"documents have {characters} characters together, at most {limit} are accepted: use LoadDocuments"
        super().__init__(message, violations=[Violation("documents", message)])


class LoadWithoutHead(InvalidArgument):
    """A load does not begin with its head, or has a second one."""

    reason = "LOAD_WITHOUT_HEAD"

    def __init__(self) -> None:
        message = "the first part of a load must be its head, and every other part a document"
        super().__init__(message, violations=[Violation("part", message)])


class EmbedderChanged(Unavailable):
    """The model of the collection's vectors is unavailable, and another one is embedding the documents."""

    reason = "EMBEDDER_CHANGED"

    def __init__(self, name: str, former_model: str, model: str) -> None:
        super().__init__(
            f'collection "{name}" has vectors of {former_model}, which is unavailable, and is being embedded by '
            f"{model}: try again later, or start the service with {former_model}",
            retry_after=RETRY_AFTER_SECONDS,
        )


class BackendMissing(FailedPrecondition):
    """The collection's backend is not configured in this service."""

    reason = "BACKEND_MISSING"

    def __init__(self, backend: str) -> None:
        super().__init__(f"the backend {backend} is not configured: set HANSEI_SEARCH_{backend}")


class ExtensionMissing(FailedPrecondition):
    """The database of the backend PGVECTOR lacks the extension `vector`, or has an older one."""

    reason = "EXTENSION_MISSING"

    def __init__(self, state: str) -> None:
        super().__init__(
            f'the database {state}: install pgvector 0.8 or newer on the server, and let a superuser run "CREATE '
            'EXTENSION vector" or "ALTER EXTENSION vector UPDATE" in this database'
        )


class PageExpired(OutOfRange):
    """The ranking of a page token was evicted, and the index has changed."""

    reason = "PAGE_EXPIRED"

    def __init__(self) -> None:
        super().__init__(
            "the ranking of this page_token is no longer cached and the index has changed: begin a new search"
        )


class BackendUnreachable(Unavailable):
    """The server of a backend does not answer. Acknowledged documents are stored and will be indexed."""

    reason = "BACKEND_UNREACHABLE"

    def __init__(self, backend: str, cause: str) -> None:
        super().__init__(f"the backend {backend} does not answer: {cause}", retry_after=RETRY_AFTER_SECONDS)
