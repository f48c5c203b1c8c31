"""What a collection refuses or cannot do, and why.

NotFound
├── CollectionNotFound
└── DocumentNotFound
AlreadyExists
└── CollectionExists        one of that name with other settings
InvalidArgument
├── ChunkOverlapTooLarge
├── InvalidDocument         a document that cannot be stored
├── PutTooLarge             more text in one call than is taken
├── LoadWithoutHead         a load that does not begin with its head
└── PageTokenInvalid        a token of another list or query
FailedPrecondition
└── BackendMissing          the backend is not set up
OutOfRange
└── PageExpired             the ranking that the token continues is gone
ResourceExhausted
└── StoreFull               the disk is full; nothing of the call was written
Unavailable
├── StoreUnavailable        the database does not answer
├── EmbedderChanged         the vectors of the collection are of a model that is not at hand
└── BackendUnreachable      Qdrant does not answer
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

    def __init__(self, name: str, setting: str, there: object, wanted: object) -> None:
        super().__init__(
            f'collection "{name}" exists with {setting} {there}, not {wanted}: delete it first, or choose another name'
        )


class ChunkOverlapTooLarge(InvalidArgument):
    """Chunks would hold more of the chunk before than of their own."""

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
    """More text than one call takes."""

    reason = "PUT_TOO_LARGE"

    def __init__(self, characters: int, most: int) -> None:
        message = f"documents have {characters} characters together, at most {most} are taken: use LoadDocuments"
        super().__init__(message, violations=[Violation("documents", message)])


class LoadWithoutHead(InvalidArgument):
    """A load says first where its documents go, once."""

    reason = "LOAD_WITHOUT_HEAD"

    def __init__(self) -> None:
        message = "the first part of a load must be its head, and every other part a document"
        super().__init__(message, violations=[Violation("part", message)])


class EmbedderChanged(Unavailable):
    """The collection's vectors are of a model that is not at hand, and are being made anew by another."""

    reason = "EMBEDDER_CHANGED"

    def __init__(self, name: str, made_by: str, now: str) -> None:
        super().__init__(
            f'collection "{name}" holds vectors of {made_by}, which is not at hand, and is being embedded by {now}: try'
            f" again later, or start the service with {made_by}",
            retry_after=RETRY_AFTER_SECONDS,
        )


class BackendMissing(FailedPrecondition):
    """The collection's backend is not set up in this service."""

    reason = "BACKEND_MISSING"

    def __init__(self) -> None:
        super().__init__("the backend QDRANT is not set up: set HANSEI_SEARCH_QDRANT")


class PageExpired(OutOfRange):
    """The ranking that a page token continues is not kept any more, and the index has moved on."""

    reason = "PAGE_EXPIRED"

    def __init__(self) -> None:
        super().__init__("the ranking of this page_token is gone and the index has changed since: begin a new search")


class BackendUnreachable(Unavailable):
    """Qdrant does not answer. What was acknowledged is kept and will be indexed."""

    reason = "BACKEND_UNREACHABLE"

    def __init__(self, cause: str) -> None:
        super().__init__(f"the backend QDRANT does not answer: {cause}", retry_after=RETRY_AFTER_SECONDS)
