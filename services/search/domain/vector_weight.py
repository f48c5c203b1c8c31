"""The weight of the vector score against BM25."""

from __future__ import annotations

from dataclasses import dataclass

from libs.embedding.model import EmbeddingModel
from services.search.domain.tokenizers import compute_latin_share


@dataclass(frozen=True, slots=True)
class VectorWeight:
    """The default weight of the vector score; `scaled` multiplies it by the trust in the embedding model."""

    alpha: float
    scaled: bool = True

    def compute_alpha(self, text: str, model: EmbeddingModel) -> float:
        """Return the weight for this query, in 0..alpha.

        A model for Latin script gets no weight for a Japanese query: the share of Latin letters scales it.
        """
        if not self.scaled:
            return self.alpha
        return self.alpha * model.trust * (compute_latin_share(text) if model.only_latin else 1.0)
