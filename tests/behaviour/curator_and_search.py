"""A curator beside a search service that follows it, in this process, for a client over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import chassis
import services.curator.bootstrap
import services.search.bootstrap
from chassis.channels import OWN, PeerChannel
from services.curator.settings import CuratorSettings
from services.search.settings import SearchSettings

HASHING = {"embedding_provider": "hashing"}


@asynccontextmanager
async def curator_and_search(
    folder: Path, *, search: str = OWN, embedding: Mapping[str, Any] = HASHING, **settings: Any
) -> AsyncIterator[PeerChannel]:
    """A channel to both. `search` is where the curator looks for search, `embedding` the settings of the embedder."""
    opened: list[chassis.Peers] = []
    given = {"llm_provider": "offline", "playbook_data_dir": str(folder), "search_addr": search, **settings}
    found = SearchSettings.model_validate(
        {"search_db": str(folder / "s.db"), "search_snapshot_dir": str(folder / "s"), **embedding}
    )

    def composed(address: str) -> list[chassis.Service]:
        peers = chassis.Peers({"search": search, "curator": OWN}, own_address=address)
        opened.append(peers)
        return [
            services.curator.bootstrap.build(CuratorSettings.model_validate(given), peers),
            services.search.bootstrap.build(found, peers),
        ]

    async with chassis.serve(composed) as running:
        client = chassis.Peers({"hansei": running.address})
        yield client.channel("hansei")
        for peers in (client, *opened):
            await peers.close()
