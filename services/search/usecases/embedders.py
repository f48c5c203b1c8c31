"""The embedder in use, and those of the vectors that former settings left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from libs.embedding.embedder import TextEmbedder


class Embedders:
    """Embedders by the id of their model; `current` embeds what is new, `make` may know others."""

    def __init__(self, current: TextEmbedder, make: Callable[[str], Awaitable[TextEmbedder | None]]) -> None:
        self.current = current
        self._make = make
        self._others: dict[str, TextEmbedder | None] = {}
        self._making = asyncio.Lock()

    @property
    def model(self) -> str:
        """Id of the embedder in use."""
        return self.current.model.model_id

    async def of(self, model: str) -> TextEmbedder | None:
        """The embedder of that id; None if nobody here embeds as it does."""
        if model == self.model:
            return self.current
        async with self._making:
            if model not in self._others:
                self._others[model] = await self._make(model)
        return self._others[model]
