"""Vectors of texts, as the search service's embedder makes them; those that were asked for last are remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

REMEMBERED = 2048
"""Texts whose vectors are kept."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Unit vectors of texts, in order, and the model that made them."""

    model: str
    vectors: Sequence[Vector]


class TextEmbedder(Protocol):
    """The search service, as far as it embeds. Raises SimilarityUnavailable."""

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of `texts`, which the service then keeps for its index."""
        ...


class Vectors:
    """The vectors of texts, all of one model."""

    def __init__(self, embedder: TextEmbedder) -> None:
        self._embedder = embedder
        self._model = ""
        self._known: OrderedDict[str, Vector] = OrderedDict()

    def unknown(self, texts: Iterable[str], most: int) -> list[str]:
        """The first `most` distinct texts whose vectors are not remembered."""
        found: dict[str, None] = {}
        for text in texts:
            if text not in self._known:
                found[text] = None
            if len(found) == most:
                break
        return list(found)

    async def of(self, texts: Sequence[str]) -> tuple[str, Mapping[str, Vector]]:
        """The model, and the vectors of `texts`: those remembered, and the rest from the service.

        Raises SimilarityUnavailable.
        """
        model, known = self._model, {text: self._known[text] for text in texts if text in self._known}
        missing = [text for text in texts if text not in known]
        if missing:
            embedded = await self._embedder.embed(missing)
            if known and embedded.model != model:
                # The service has another embedder now; vectors of two models are never compared.
                known, missing = {}, list(texts)
                embedded = await self._embedder.embed(missing)
            model = embedded.model
            known.update(zip(missing, embedded.vectors, strict=True))
        self._remember(model, known)
        return model, known

    def _remember(self, model: str, vectors: Mapping[str, Vector]) -> None:
        if model != self._model:
            self._known.clear()
            self._model = model
        for text, vector in vectors.items():
            self._known[text] = vector
            self._known.move_to_end(text)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
