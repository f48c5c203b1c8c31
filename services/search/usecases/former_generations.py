"""The indexes of playbooks that a former embedding model left behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chassis.logging import get_logger
from libs.embedding.embedder import TextEmbedder
from services.search.usecases.embedders import Embedders
from services.search.usecases.playbook_follower import PlaybookFollower

log = get_logger(__name__)


class FormerGenerations:
    """Create the index of a playbook with its former model, which is searched until the cut-over to the current one."""

    def __init__(self, embedders: Embedders, create: Callable[[str, TextEmbedder], PlaybookFollower]) -> None:
        """`create` returns the index of a dataset that has vectors of an embedder."""
        self._embedders = embedders
        self._create = create
        self._embedder_of: dict[str, TextEmbedder] = {}

    async def find(self, models: Mapping[str, str]) -> None:
        """Connect the former model of each dataset; an index whose model is unavailable is built again instead."""
        for dataset, model in models.items():
            embedder = await self._embedders.get(model)
            if embedder is None:
                log.warning(
                    "embedding model of the index is unavailable; rebuilding the index", dataset=dataset, model=model
                )
            else:
                log.info("searching the index of the previous model until the cut-over", dataset=dataset, model=model)
                self._embedder_of[dataset] = embedder

    def create_follower(self, dataset: str) -> PlaybookFollower | None:
        """Return the index of a dataset with its former model, once; None without one."""
        embedder = self._embedder_of.pop(dataset, None)
        return None if embedder is None else self._create(dataset, embedder)
