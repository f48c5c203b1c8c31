"""Embeddings from a provider's API, through `libs.llm`."""

from __future__ import annotations

from collections.abc import Sequence

from libs.llm.embeddings import EmbeddingClient
from libs.llm.errors import ModelUnavailable
from services.search.domain.embedding import Float32s
from services.search.domain.errors import RETRY_AFTER_SECONDS, EmbeddingFailed


class RemoteEmbedder:
    """The embedding model of a provider. `dimension` 0 is the model's own."""

    trust = 1.0
    only_latin = False

    def __init__(self, client: EmbeddingClient, dimension: int = 0) -> None:
        self._client = client
        self.model = f"{client.name}-{dimension}" if dimension else client.name

    async def embed(self, texts: Sequence[str]) -> Float32s:
        """Vectors of shape (len(texts), dimension), in order. Raises `EmbeddingFailed`, `ModelDeadlineExceeded`."""
        try:
            # Providers refuse the empty text, which means nothing to them just as a blank does.
            return await self._client.embed([text or " " for text in texts])
        except ModelUnavailable as error:
            raise EmbeddingFailed(error.message, error.retry_after or RETRY_AFTER_SECONDS) from error

    async def close(self) -> None:
        """Close the connections to the provider."""
        await self._client.aclose()
