"""The current embedder, and those of models that were configured before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from libs.embedding.embedder import TextEmbedder
from services.search.domain.collection import Collection
from services.search.domain.collection_errors import EmbedderChanged


class Embedders:
    """Embedders by model id; `connect` returns the embedder of a former model, or None."""

    def __init__(self, current: TextEmbedder, connect: Callable[[str], Awaitable[TextEmbedder | None]]) -> None:
        self.current = current
        self._connect = connect
        self._former: dict[str, TextEmbedder | None] = {}
        self._lock = asyncio.Lock()

    @property
    def model(self) -> str:
        """Return the id of the current model."""
        return self.current.model.model_id

    async def get(self, model: str) -> TextEmbedder | None:
        """Return the embedder of a model; None if the model is unavailable."""
        if model == self.model:
            return self.current
        async with self._lock:
            if model not in self._former:
                self._former[model] = await self._connect(model)
        return self._former[model]

    async def get_for(self, collection: Collection) -> TextEmbedder:
        """Return the embedder of a collection. Raises `EmbedderChanged` if its model is unavailable."""
        embedder = await self.get(collection.model)
        if embedder is None:
            raise EmbedderChanged(collection.name, collection.model, self.model)
        return embedder
