"""Measure the costs of the archive: `python -m bench.evidence.archive [FILE...]`.

CPU that storing adds to a Learn and afterwards, bytes of the archive against the JSON of the trajectories, bytes of a
serving. The trajectories are the recorded examples and those of the files, in any format that the reflector reads.
Writes `archive.json` and the tables of the README.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.json_format import MessageToJson

from bench.evidence.tables import write_tables
from gateway.orchestrator.learn import Learning
from gateway.outbox.adapters.sql.repository import OutboxRepository
from gateway.outbox.adapters.sql.schema import MIGRATIONS
from gateway.outbox.usecases.deliver_trajectories import TrajectoryOutbox
from hansei.evidence.v1 import archive_service_pb2 as archive_pb
from hansei.evidence.v1 import evidence_service_pb2 as evidence_pb
from hansei.gateway.v1 import gateway_service_pb2 as gateway_pb
from hansei.reflector.v1 import trajectory_pb2
from libs.storage.database import Database
from libs.storage.idempotency import IdempotencyKey
from libs.storage.timestamps import utc_now
from services.evidence.adapters.bodies import compress, compress_pack, decompress
from services.evidence.adapters.sql.archive_repository import ArchiveRepository
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.archive import Retention
from services.evidence.domain.policy import TrialPolicy
from services.evidence.rpc.servicer.archive import ArchiveServicer
from services.evidence.usecases.archive import Archive, ArchiveLimits
from services.evidence.usecases.ports import RankedBullet
from services.reflector.adapters.importers import files as reader
from services.reflector.rpc.convert import encode_file

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples/trajectories"
STEPS = 30
ROUNDS = 5
SERVINGS = 5_000
SERVED_BULLETS = 10
LIMITS = ArchiveLimits(64 * 1024**2, 1024**4, 1024**3, Retention(365, 1024**4))

Trajectories = Sequence[trajectory_pb2.Trajectory]


class InProcessArchive:
    """The archive without a network."""

    def __init__(self, servicer: ArchiveServicer) -> None:
        self._servicer = servicer

    async def StoreTrajectory(  # noqa: N802
        self, request: archive_pb.StoreTrajectoryRequest
    ) -> archive_pb.StoreTrajectoryResponse:
        """Store a trajectory."""
        return await self._servicer.StoreTrajectory(request, None)


async def ignore_servings(dataset: str, serving_ids: Sequence[str], outcome: float) -> None:
    """Report nothing: no trials are running."""


def read_trajectories(file: Path) -> Iterator[trajectory_pb2.Trajectory]:
    """Yield the trajectories of a file."""
    for parsed in encode_file(reader.read_trajectories(file.read_bytes(), "bench")).trajectories:
        yield parsed.trajectory


def join_steps(trajectories: Trajectories, count: int) -> Trajectories:
    """Return trajectories of exactly `count` steps, joined from the steps of recorded ones."""
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    joined = []
    for start in range(0, len(steps) - count, count // 3):
        trajectory = trajectory_pb2.Trajectory()
        trajectory.CopyFrom(trajectories[start % len(trajectories)])
        trajectory.id = f"joined-{start}"
        del trajectory.steps[:]
        trajectory.steps.extend(steps[start : start + count])
        joined.append(trajectory)
    return joined


def build_archive(store: EvidenceRepository) -> Archive:
    """Return the archive of a store, without an object store, as the service builds it."""
    return Archive(
        ArchiveRepository(store.database),
        None,
        LIMITS,
        compress=compress,
        compress_pack=compress_pack,
        decompress=decompress,
        now=utc_now,
    )


async def measure_learn(trajectories: Trajectories, folder: Path) -> dict[str, Any]:
    """Return the milliseconds of CPU a trajectory, of all threads: in Learn, and in the delivery after it."""
    store = EvidenceRepository(str(folder / "evidence.db"))
    await store.database.open()
    archive = build_archive(store)
    servicer = ArchiveServicer(archive, ignore_servings, count_stored=lambda is_new: None)
    database = Database(str(folder / "gateway.db"), MIGRATIONS, service="gateway", store="outbox")
    await database.open()
    repository = OutboxRepository(database, "bench")
    outbox = TrajectoryOutbox(repository, InProcessArchive(servicer), 1024**4, max_message_bytes=1024**4)
    learning = Learning(None, None, outbox)  # type: ignore[arg-type]
    requests = [
        build_learn_request(trajectory, number, position)
        for number in range(ROUNDS)
        for position, trajectory in enumerate(trajectories)
    ]
    response = gateway_pb.LearnResponse()
    await learning.store_trajectory(requests[0], requests[0].trajectory, response)
    await outbox.drain()
    cpu, wall = time.process_time(), time.perf_counter()
    for request in requests[1:]:
        await learning.store_trajectory(request, request.trajectory, response)
    in_learn, waiting = time.process_time() - cpu, time.perf_counter() - wall
    cpu = time.process_time()
    while await repository.sum_bytes():
        await outbox.drain()
    afterwards = time.process_time() - cpu
    await database.close()
    await store.database.close()
    count = len(requests) - 1
    size = sum(request.trajectory.ByteSize() for request in requests) / len(requests)
    return {
        "trajectories of 30 steps": count,
        "mean bytes": f"{size:,.0f}",
        "CPU added to Learn, ms": f"{in_learn / count * 1e3:.2f}",
        "goal": "2",
        "time added to Learn, ms": f"{waiting / count * 1e3:.2f}",
        "CPU of the delivery and the archive afterwards, ms": f"{afterwards / count * 1e3:.2f}",
    }


def build_learn_request(trajectory: trajectory_pb2.Trajectory, number: int, position: int) -> gateway_pb.LearnRequest:
    """Return a Learn of a trajectory, with an id of its own."""
    request = gateway_pb.LearnRequest(dataset="bench", trajectory=trajectory)
    request.trajectory.dataset = "bench"
    request.trajectory.id = f"t-{number}-{position}"
    return request


async def measure_size(name: str, trajectories: Trajectories, folder: Path) -> dict[str, Any]:
    """Return the bytes of an archive, whole file and bodies, against the JSON of its trajectories."""
    file = folder / "evidence.db"
    store = EvidenceRepository(str(file))
    await store.database.open()
    await store.database.vacuum()
    empty = file.stat().st_size
    archive = build_archive(store)
    servicer = ArchiveServicer(archive, ignore_servings, count_stored=lambda is_new: None)
    for trajectory in trajectories:
        request = archive_pb.StoreTrajectoryRequest(dataset="bench", trajectory=trajectory)
        request.trajectory.dataset = "bench"
        await servicer.StoreTrajectory(request, None)
    await archive.maintain()
    totals = await archive.find_totals("bench")
    await store.database.vacuum()
    size = file.stat().st_size - empty
    await store.database.close()
    texts = [
        json.dumps(json.loads(MessageToJson(trajectory, preserving_proto_field_name=True)), ensure_ascii=False)
        for trajectory in trajectories
    ]
    plain = sum(len(text.encode()) for text in texts)
    return {
        "trajectories": name,
        "number": totals.trajectories,
        "mean bytes of JSON": f"{plain / len(texts):,.0f}",
        "bodies": f"{totals.size / plain:.1%}",
        "whole database": f"{size / plain:.1%}",
        "goal": "25%",
    }


async def measure_serving(folder: Path) -> dict[str, Any]:
    """Return the bytes of the database for each serving, before its outcome is reported."""
    file = folder / "evidence.db"
    store = EvidenceRepository(str(file))
    await store.database.open()
    key = IdempotencyKey.for_message(evidence_pb.StartTrialsRequest(request_id="1f0c7e52-9a55-4f0e-8a0b-0d4f7f1e5402"))
    await store.start(key, "bench", TrialPolicy())
    bullets = [RankedBullet(f"git-{number:05}", f"{number:016x}", None) for number in range(3 * SERVED_BULLETS)]
    await store.database.vacuum()
    empty = file.stat().st_size
    for number in range(SERVINGS):
        first = number % (2 * SERVED_BULLETS)
        await store.serve("bench", f"session-{number}", bullets[first : first + SERVED_BULLETS])
    await store.database.vacuum()
    size = file.stat().st_size - empty
    await store.database.close()
    return {
        "servings": SERVINGS,
        "bullets each": SERVED_BULLETS,
        "bytes a serving": f"{size / SERVINGS:.0f}",
        "goal": "400",
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    files: list[Path] = parser.parse_args().files
    examples = [trajectory for file in sorted(EXAMPLES.glob("*.json")) for trajectory in read_trajectories(file)]
    sets = {"recorded examples": examples} | {file.stem: list(read_trajectories(file)) for file in files}
    longest = max(sets.values(), key=lambda members: sum(len(trajectory.steps) for trajectory in members))
    sizes = []
    for name, trajectories in sets.items():
        with TemporaryDirectory() as folder:
            sizes.append(asyncio.run(measure_size(name, trajectories, Path(folder))))
    with TemporaryDirectory() as folder:
        learn = asyncio.run(measure_learn(join_steps(longest, STEPS)[:60], Path(folder)))
    with TemporaryDirectory() as folder:
        serving = asyncio.run(measure_serving(Path(folder)))
    write_tables(HERE / "archive.json", {"learn": [learn], "archive": sizes, "servings": [serving]})


if __name__ == "__main__":
    main()
