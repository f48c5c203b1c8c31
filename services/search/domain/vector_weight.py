"""The weight of the vector score against BM25."""

from __future__ import annotations

from dataclasses import dataclass

from libs.embedding.model import EmbeddingModel, Languages
from services.search.domain.fusion import Fusion
from services.search.domain.tokenizers import compute_latin_share


@dataclass(frozen=True, slots=True)
class VectorWeight:
    """The default weight of the vector score; `scaled` adapts it to the embedding model and to the query."""

    alpha: float
    scaled: bool = True

    def choose_fusion(self, text: str, model: EmbeddingModel, method: str) -> Fusion:
        """Return the fusion for this query by a method, with a weight in 0..alpha.

        A model for Latin script gets no weight for a Japanese query: the share of Latin letters scales it. With a model
        for many languages the weight rises up to 1 where the candidates lack words of the query.
        """
        if not self.scaled:
            return Fusion(self.alpha, method)
        latin_share = compute_latin_share(text) if model.languages is Languages.LATIN else 1.0
        rises = model.languages is Languages.ACROSS and self.alpha > 0.0
        return Fusion(self.alpha * model.trust * latin_share, method, 1.0 - self.alpha if rises else 0.0)
