"""Check the calls of the scripted coding agent by the SDK and by the planner: `python -m bench.guards.paths`.

The guards of `bench.guards` are lessons of a playbook in DENY, served by the curator and the evidence service in one
process, and every call of the later trajectories is checked and reported as an agent does it. The counts of both paths
must be those that the replay in this process gives. Writes bench/results/guards-paths.json.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.guards.coding_agent import KINDS, TASKS_OF_A_KIND, build_trajectory
from bench.report import HERE, machine
from chassis.channels import Peers
from chassis.errors import Unavailable
from chassis.targets.guard import CallDecision
from chassis.targets.target import Target
from hansei.client import AsyncClient
from hansei.playbook.v1 import playbook_pb2
from libs.guards.guard_trajectory import GuardTrajectory, Replay, TrajectoryCall, TrajectoryMessage, matches
from libs.guards.repairs import select_repairs
from services.planner.adapters.guards import EvidenceCallChecks
from services.planner.domain.results import ToolResult
from services.planner.usecases.ports import PlannedCall
from tests.support import systems

EARLIER = 2
"""Runs of a kind from which guards are learned; the others are checked."""
Firings = list[bool]


def learn_targets(*, is_hard: bool) -> list[str]:
    """Return the targets from the first trajectories of each kind."""
    earlier = [build_trajectory(kind, number, is_hard=is_hard) for kind in KINDS for number in range(EARLIER)]
    return [repair.target for repair in select_repairs(earlier)]


def replay_trajectory(targets: Sequence[Target], trajectory: GuardTrajectory) -> Firings:
    """Return for each call of a trajectory whether a target fires, decided in this process."""
    replay = Replay(trajectory)
    return [any(matches(target, call, replay) for target in targets) for call in replay]


async def follow_with_sdk(client: AsyncClient, dataset: str, trajectory: GuardTrajectory) -> Firings:
    """Return for each call whether `client.guard` refuses it."""
    guard = client.guard(dataset, trajectory.id)
    firings: Firings = []
    for event in trajectory.events:
        if isinstance(event, TrajectoryMessage):
            if event.role != "assistant":
                guard.add_message(event.text, is_instruction=event.role == "system")
            continue
        verdict = await guard.check(event.request.tool, event.request.args)
        firings.append(verdict.decision == "deny")
        await guard.report(event.request.tool, event.request.args, event.result, failed=bool(event.error))
    return firings


async def follow_with_planner(checks: EvidenceCallChecks, dataset: str, trajectory: GuardTrajectory) -> Firings:
    """Return for each call whether the checks of the planner refuse it."""
    # Ids of executions are unique, and so are those of their reports.
    execution_id = f"plan-{dataset}-{trajectory.id}"
    texts: tuple[tuple[str, str], ...] = ()
    firings: Firings = []
    for number, event in enumerate(trajectory.events):
        if isinstance(event, TrajectoryCall):
            call = PlannedCall(execution_id, f"{execution_id}:{number}:1", "", event.request, texts)
            firings.append((await checks.check(call)).decision is CallDecision.DENY)
            result = event.result if isinstance(event.result, str) else json.dumps(event.result)
            await checks.report(call, ToolResult(success=not event.error, output=result, error=event.error or None))
        elif event.role == "user":
            texts = (*texts, (f"message-{number}", event.text))
    return firings


async def measure_world(address: str, *, is_hard: bool) -> dict[str, Any]:
    """Return the counts of the replay and of both paths in one world."""
    sources = learn_targets(is_hard=is_hard)
    dataset = "hard" if is_hard else "easy"
    trajectories = [
        build_trajectory(kind, number, is_hard=is_hard) for kind in KINDS for number in range(EARLIER, TASKS_OF_A_KIND)
    ]
    deltas = [
        playbook_pb2.Delta(
            type=playbook_pb2.DELTA_TYPE_ADD,
            section="bench",
            content=f"Lesson {number}: {source}"[:1_000],
            target=playbook_pb2.Target(expression=source, mode=playbook_pb2.TARGET_MODE_DENY, pinned=True),
            reasoning="The bench refuses the calls.",
        )
        for number, source in enumerate(sources)
    ]
    unchecked: list[str] = []
    peers = Peers({"evidence": address})
    checks = EvidenceCallChecks(peers, dataset, 10.0, unchecked.append)
    targets = [Target(source) for source in sources]
    async with AsyncClient(address) as client:
        await client.playbooks.apply_deltas(request_id=str(uuid4()), dataset=dataset, deltas=deltas)
        await wait_for_guards(client, dataset, len(sources))
        found = {
            "replay": [replay_trajectory(targets, trajectory) for trajectory in trajectories],
            "sdk": [await follow_with_sdk(client, dataset, trajectory) for trajectory in trajectories],
            "planner": [await follow_with_planner(checks, dataset, trajectory) for trajectory in trajectories],
        }
    await peers.close()
    counts = {name: count_firings(trajectories, firings) for name, firings in found.items()}
    differing = {name: count_differences(found["replay"], firings) for name, firings in found.items()}
    return {"counts": counts, "calls_decided_otherwise_than_in_the_replay": differing, "guards": len(sources)} | {
        "unchecked": unchecked.count("unchecked")
    }


async def wait_for_guards(client: AsyncClient, dataset: str, count: int) -> None:
    """Wait until the evidence service has read the guards; on a busy machine its first attempts fail."""
    async with asyncio.timeout(120):
        while True:
            with suppress(Unavailable):
                if len((await client.guards.list_all(dataset=dataset)).guards) >= count:
                    return


def count_firings(trajectories: Sequence[GuardTrajectory], firings: Sequence[Firings]) -> dict[str, int]:
    """Return the mistakes and the correct calls, each with a firing, as `bench.guards` counts them."""
    counts = {"repeated_mistakes": 0, "with_a_firing": 0, "correct_calls": 0, "correct_calls_with_a_firing": 0}
    for trajectory, fires in zip(trajectories, firings, strict=True):
        replay = Replay(trajectory)
        for call, is_fired in zip(replay, fires, strict=True):
            if not call.error:
                counts["correct_calls"] += 1
                counts["correct_calls_with_a_firing"] += is_fired
            elif call.request.tool != "install" or replay.session.repeats[call.request.key]:
                counts["repeated_mistakes"] += 1
                counts["with_a_firing"] += is_fired
    return counts


def count_differences(expected: Sequence[Firings], found: Sequence[Firings]) -> int:
    """Return the number of calls with another decision."""
    pairs = zip(expected, found, strict=True)
    return sum(
        first != second for one_path, other_path in pairs for first, second in zip(one_path, other_path, strict=True)
    )


def main() -> None:
    """Measure, print and write the results."""
    with (
        tempfile.TemporaryDirectory() as folder,
        systems.one_process(Path(folder), HANSEI_LOG_LEVEL="WARNING") as system,
    ):
        results: dict[str, Any] = {
            name: asyncio.run(measure_world(system.address, is_hard=name == "hard")) for name in ("easy", "hard")
        }
    text = json.dumps({**results, "machine": machine()}, indent=2)
    (HERE / "results" / "guards-paths.json").write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
