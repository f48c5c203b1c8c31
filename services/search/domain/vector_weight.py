"""The weight of the vector score beside the words."""

from __future__ import annotations

from dataclasses import dataclass

from libs.embedding.model import EmbeddingModel
from services.search.domain.tokenizers import latin_share


@dataclass(frozen=True, slots=True)
class VectorWeight:
    """The weight of the vector score where a query does not give one; `scaled` by what the embedder is worth."""

    alpha: float
    scaled: bool = True

    def of(self, text: str, model: EmbeddingModel) -> float:
        """The weight for this query, in 0..alpha."""
        if not self.scaled:
            return self.alpha
        return self.alpha * model.trust * (latin_share(text) if model.only_latin else 1.0)
