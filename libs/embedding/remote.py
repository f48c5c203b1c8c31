"""Embedding models of a provider's API, with concurrent batches and retries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from libs.embedding.errors import RETRY_AFTER_SECONDS, EmbeddingFailed, MalformedVectors
from libs.embedding.model import Float32s, Languages, SimilarityThresholds, check_vectors
from libs.llm.attempts import Attempts
from libs.llm.chat import Close, close_nothing
from libs.llm.errors import ModelReplyMalformed, ModelUnavailable
from libs.llm.tracing import model_call
from libs.llm.usage import Usage, record

STRICTEST = SimilarityThresholds(same_meaning=0.87, same_subject=0.73)
"""The thresholds of models without measurements: the highest ones measured."""


class LangChainModel(Protocol):
    """The part of LangChain's embedding models that this module calls."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text, in order."""


class RemoteModel:
    """A provider's model as an `EmbeddingModel`.

    `dimension` 0 takes the dimension of the first response; from then on all vectors must have it.
    """

    trust = 1.0
    languages = Languages.SEVERAL
    thresholds = STRICTEST

    def __init__(
        self,
        langchain_model: LangChainModel,
        name: str,
        attempts: Attempts,
        *,
        batch_size: int = 128,
        dimension: int = 0,
        provider: str = "openai",
        close: Close = close_nothing,
    ) -> None:
        self.model_id = f"{name}-{dimension}" if dimension else name
        self.dimension = dimension
        self._name = name
        self._provider = provider
        self._langchain_model = langchain_model
        self._attempts = attempts
        self._batch_size = batch_size
        self._close = close

    async def close(self) -> None:
        """Close the connections to the provider."""
        await self._close()

    async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        """Return the vectors of the texts, shape (n, d), float32. When one batch fails the others are cancelled.

        Raises `EmbeddingFailed`, `ModelDeadlineExceeded`.
        """
        # Providers refuse the empty text, which means as little to them as a blank.
        filled = [text or " " for text in texts]
        batches = [filled[start : start + self._batch_size] for start in range(0, len(filled), self._batch_size)]
        if not batches:
            return np.zeros((0, self.dimension), np.float32)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._embed_batch(batch)) for batch in batches]
        except ExceptionGroup as errors:
            first = errors.exceptions[0]
            if not isinstance(first, ModelUnavailable):
                raise first from None
            raise EmbeddingFailed(first.message, first.retry_after or RETRY_AFTER_SECONDS) from first
        return np.concatenate([task.result() for task in tasks])

    async def _embed_batch(self, texts: list[str]) -> Float32s:
        async def request_vectors() -> Float32s:
            try:
                vectors = await self._langchain_model.aembed_documents(texts)
                return check_vectors(vectors, len(texts), self.dimension)
            except MalformedVectors as error:
                raise ModelReplyMalformed(f"model {self._name} {error}") from error

        with model_call("embeddings", self._provider, self._name):
            vectors, attempts = await self._attempts.run(request_vectors)
        self.dimension = vectors.shape[1]
        # LangChain's embedding models do not return the provider's token counts.
        record(Usage(self._name, input_tokens=None, output_tokens=None, cost_usd=None, attempts=attempts))
        return vectors
