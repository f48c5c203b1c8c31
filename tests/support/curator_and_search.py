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
from hansei.curator.v1 import curator_service_pb2 as curator_pb
from hansei.reflector.v1 import trajectory_pb2
from services.curator.settings import CuratorSettings
from services.search.settings import SearchSettings
from tests.support.playbook_client import new_id

HASHING = {"embedding_provider": "hashing"}


@asynccontextmanager
async def curator_and_search(
    folder: Path,
    *,
    embedding: Mapping[str, Any] = HASHING,
    alone: bool = False,
    search_folder: Path | None = None,
    **settings: Any,
) -> AsyncIterator[PeerChannel]:
    """Yield a channel to a curator and a search service, or to the curator `alone`.

    `embedding` are the settings of the embedding model."""
    opened: list[chassis.Peers] = []
    curating = {"llm_provider": "offline", "playbook_data_dir": str(folder), **embedding, **settings}
    data_folder = search_folder or folder
    searching = {
        "search_database_url": str(data_folder / "s.db"),
        "search_snapshot_dir": str(data_folder / "s"),
        **embedding,
    }

    def build_services(own: chassis.OwnServer) -> list[chassis.Service]:
        peers = chassis.Peers({"curator": OWN}, own=own)
        opened.append(peers)
        curator = services.curator.bootstrap.build(CuratorSettings.model_validate(curating), peers)
        if alone:
            return [curator]
        return [curator, services.search.bootstrap.build(SearchSettings.model_validate(searching), peers)]

    async with chassis.serve(build_services) as running:
        client = chassis.Peers({"hansei": running.address})
        yield client.get_channel("hansei")
        for peers in (client, *opened):
            await peers.close()


def curate_request(*lessons: str, trajectory: str = "run", dataset: str = "d") -> curator_pb.CurateRequest:
    """Return a request with lessons of a model, which need no response of a tool as support."""
    insights = [
        trajectory_pb2.Insight(
            reasoning="r", error_identification="e", root_cause_analysis="c", correct_approach="a", key_insight=lesson
        )
        for lesson in lessons
    ]
    reflection = trajectory_pb2.ReflectionResult(
        insights=insights,
        trajectory_id=trajectory,
        iteration_count=1,
        signal=trajectory_pb2.SIGNAL_STRENGTH_REWARD,
        model="a-model",
    )
    return curator_pb.CurateRequest(request_id=new_id(), dataset=dataset, reflection_result=reflection)
