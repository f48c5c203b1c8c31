"""Two search processes on one curator: each releases the idle indexes of which the other one is the first owner."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from chassis.replicas import rank_names
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests.support import systems

DATASETS = [f"d{number}" for number in range(12)]
PROCESSES = ("search", "search-2")
SECONDS = 30


@pytest.fixture
def system(tmp_path: Path) -> Iterator[systems.System]:
    """Two search processes that release an index after a second."""
    environment = systems.METRICS | {
        "HANSEI_SEARCH_OWN_IP": "127.0.0.1",
        "HANSEI_SEARCH_RELEASE_SECONDS": "1",
        "HANSEI_SEARCH_SNAPSHOT_SECONDS": "0.1",
    }
    planned = systems.create_system("two searches", tmp_path, {"search": 2}, environment)
    with systems.run_system(planned, ("curator", *PROCESSES)) as running:
        yield running


def test_an_index_is_released_unless_it_is_used_and_is_loaded_again(system: systems.System) -> None:
    addresses = dict(zip(system.replicas("search"), PROCESSES, strict=True))
    first_owners = {dataset: addresses[rank_names(dataset, addresses)[0]] for dataset in DATASETS}
    other = {"search": "search-2", "search-2": "search"}
    assert set(first_owners.values()) == set(PROCESSES)
    with grpc.insecure_channel(system.addresses["curator"]) as channel:
        playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
        for dataset in DATASETS:
            delta = playbook_pb2.Delta(
                type=playbook_pb2.DELTA_TYPE_ADD, section="s", content=f"Use {dataset} with care."
            )
            playbooks.ApplyDeltas(
                playbook_service_pb2.ApplyDeltasRequest(request_id=str(uuid.uuid4()), dataset=dataset, deltas=[delta]),
                timeout=SECONDS,
            )

    def search(process: str, dataset: str) -> list[str]:
        request = search_service_pb2.SearchRequest(
            dataset=dataset, min_revision=1, query=search_pb2.SearchQuery(query_text="care", top_k=1)
        )
        return [result.bullet.content for result in stubs[process].Search(request, timeout=SECONDS).results]

    def count(metric: str, process: str) -> int:
        return int(sum(system.read_metric(f"hansei_search_index_{metric}", process).values()))

    with (
        grpc.insecure_channel(system.programs["search"].address) as first,
        grpc.insecure_channel(system.programs["search-2"].address) as second,
    ):
        stubs: dict[str, Any] = {
            process: search_service_pb2_grpc.SearchServiceStub(channel)
            for process, channel in zip(PROCESSES, (first, second), strict=True)
        }
        for dataset in DATASETS:
            for process in PROCESSES:
                assert search(process, dataset) == [f"Use {dataset} with care."]
        used, released = DATASETS[-1], DATASETS[0]
        expected = {
            process: sum(owner == process or dataset == used for dataset, owner in first_owners.items())
            for process in PROCESSES
        }
        deadline = time.monotonic() + SECONDS
        while {process: count("playbooks", process) for process in PROCESSES} != expected:
            assert time.monotonic() < deadline, "the indexes were not released"
            search(other[first_owners[used]], used)
            time.sleep(0.05)
        for process in PROCESSES:
            assert count("releases_total", process) >= len(DATASETS) - expected[process]
            assert count("evictions_total", process) == 0
        process = other[first_owners[released]]
        assert (system.data / "snapshots" / process / f"{released}.index").exists()
        assert search(process, released) == [f"Use {released} with care."]
