"""Let the evidence service demote guards as trajectories of the coding agent are archived, with its own parts."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.guards.coding_agent import KINDS, TASKS_OF_A_KIND, build_trajectory
from chassis.targets.guard import CallGuard, GuardIndex, GuardMode
from chassis.targets.target import Target
from hansei.evidence.v1 import archive_service_pb2 as pb
from hansei.reflector.v1 import trajectory_pb2
from libs.guards.backtest import backtest
from libs.guards.guard_trajectory import GuardTrajectory, TrajectoryCall
from libs.guards.repairs import select_repairs
from libs.storage.timestamps import utc_now
from services.evidence.adapters.bodies import compress, compress_pack, decompress
from services.evidence.adapters.sql.archive_repository import ArchiveRepository
from services.evidence.adapters.sql.guard_repository import GuardRepository
from services.evidence.adapters.sql.guard_trial_repository import GuardTrialRepository
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.archive import Retention
from services.evidence.rpc.convert.archive import decode_archived_trajectory
from services.evidence.rpc.servicer.archive import ArchiveServicer
from services.evidence.usecases.archive import Archive, ArchiveLimits
from services.evidence.usecases.backtest_archive import BacktestArchive
from services.evidence.usecases.check_call import limit_modes
from services.evidence.usecases.guard_ports import DatasetGuards
from services.evidence.usecases.report_servings import ReportServings
from services.evidence.usecases.retest_guards import RetestGuards

LIMITS = ArchiveLimits(10_000_000, 1_000_000_000, 1_000_000, Retention(365, 1_000_000_000))
RECORDED_SEEDS = range(100, 103)
"""Variants of the easy world that were recorded before, on which the guards get their first backtest."""
CountCalls = Callable[[Sequence[Target], GuardTrajectory], Counter[str]]


@dataclass(frozen=True, slots=True)
class FixedGuards:
    """The guards of every dataset, in the place of a playbook."""

    guards: DatasetGuards

    async def find(self, dataset: str) -> DatasetGuards:
        """Return the guards."""
        return self.guards


async def count_with_demotions(seeds: int, earlier: int, count_calls: CountCalls) -> Counter[str]:
    """Count the calls of the hard world with a firing of guards that may advise, as trajectories are archived.

    In each variant, guards are learned from the first trajectories of each kind and have a backtest on recorded
    trajectories without the files that they do not know. After each trajectory the service tests them again.
    """
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        evidence = EvidenceRepository(str(Path(folder) / "evidence.db"))
        await evidence.database.open()
        repository = ArchiveRepository(evidence.database)
        archive = Archive(
            repository, None, LIMITS, compress=compress, compress_pack=compress_pack, decompress=decompress, now=utc_now
        )
        report_servings = ReportServings(evidence, count_report=_count_nothing)
        servicer = ArchiveServicer(archive, report_servings, count_stored=_count_nothing)
        store, trials = GuardRepository(evidence.database), GuardTrialRepository(evidence.database)
        recorded = [
            build_trajectory(kind, number, is_hard=False, seed=seed)
            for seed in RECORDED_SEEDS
            for kind in KINDS
            for number in range(TASKS_OF_A_KIND)
        ]
        for seed in range(seeds):
            dataset = f"variant-{seed}"
            order = [
                build_trajectory(kind, number, is_hard=True, seed=seed)
                for number in range(TASKS_OF_A_KIND)
                for kind in KINDS
            ]
            first, later = order[: earlier * len(KINDS)], order[earlier * len(KINDS) :]
            guards = tuple(
                CallGuard(f"b-{number}", Target(repair.target), GuardMode.ADVISE, repair.error)
                for number, repair in enumerate(select_repairs(first))
            )
            for guard in guards:
                await store.store_backtest(dataset, guard.target.source, backtest(guard.target, recorded), 0)
            source = FixedGuards(DatasetGuards(1, guards, GuardIndex(guards)))
            retest = RetestGuards(source, store, trials, BacktestArchive(archive, decode_archived_trajectory))
            for trajectory in later:
                in_effect = await limit_modes(store, dataset, guards, frozenset())
                targets = [guard.target for guard in in_effect if guard.mode > GuardMode.SHADOW]
                counts.update(count_calls(targets, trajectory))
                message = encode_trajectory(dataset, trajectory)
                await servicer.StoreTrajectory(
                    pb.StoreTrajectoryRequest(dataset=dataset, trajectory=message), context=None
                )
                await retest()
        await evidence.database.close()
    return counts


def encode_trajectory(dataset: str, trajectory: GuardTrajectory) -> trajectory_pb2.Trajectory:
    """Return a passing trajectory as an agent reports it."""
    message = trajectory_pb2.Trajectory(
        id=trajectory.id,
        dataset=dataset,
        query="Fix the issue.",
        status=trajectory_pb2.TRAJECTORY_STATUS_SUCCESS,
        reward=1.0,
    )
    for event in trajectory.events:
        if not isinstance(event, TrajectoryCall):
            message.steps.add(role=trajectory_pb2.STEP_ROLE_USER, content=event.text)
            continue
        call = trajectory_pb2.ToolCall(
            id=f"call-{event.step}", name=event.request.tool, arguments=json.dumps(event.request.args)
        )
        result = event.result if isinstance(event.result, str) else json.dumps(event.result)
        message.steps.add(role=trajectory_pb2.STEP_ROLE_ASSISTANT, tool_calls=[call])
        message.steps.add(role=trajectory_pb2.STEP_ROLE_TOOL, tool_call_id=call.id, content=result)
    return message


def _count_nothing(*counts: object) -> None:
    """Take the place of metrics."""
