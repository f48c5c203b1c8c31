"""Errors of embedding."""

from __future__ import annotations

from chassis.errors import Unavailable

RETRY_AFTER_SECONDS = 1.0


class EmbeddingFailed(Unavailable):
    """The embedding model did not answer, or answered something other than the embeddings asked for (S-16, S-37)."""

    reason = "EMBEDDING_FAILED"

    def __init__(self, cause: str, retry_after: float = RETRY_AFTER_SECONDS) -> None:
        super().__init__(f"Embedding failed: {cause}", retry_after=retry_after)
        self.cause = cause


class MalformedVectors(Exception):
    """A model returned a wrong number of vectors, vectors of unequal dimension, or numbers that are not finite."""
