"""Run one process that executes plans with effects: ``python -m bench.planner.life SYSTEM FOLDER KILL_AT``."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bench.planner.dbos_baseline import Dbos
from bench.planner.langgraph_baseline import LangGraph
from bench.planner.planner_system import PlannerSystem
from bench.planner.system import EFFECTS, System
from bench.planner.world import World

SYSTEMS: dict[str, type[System]] = {"hansei": PlannerSystem, "LangGraph": LangGraph, "DBOS": Dbos}
_SECONDS = 120


async def live(system: System, folder: Path, kill_at: int) -> None:
    """Execute `EFFECTS`, or the remainder of an earlier process; die at a point (0: never)."""
    await system.open(folder, World(folder, kill_at))
    await system.affect()
    await system.close()


def count_repeated_effects(name: str, folder: Path) -> dict[str, int]:
    """Kill a system before and after each effect, restart it, and count the effects."""
    counts = {"kills": 0, "effects repeated": 0, "effects missing": 0}
    for kill_at in range(1, 2 * len(EFFECTS) + 1):
        life_folder = folder / f"{name}-{kill_at}"
        life_folder.mkdir()
        assert _process(name, life_folder, kill_at) != 0, f"{name} was to die at {kill_at}"
        assert _process(name, life_folder, 0) == 0, f"{name}, killed at {kill_at}, did not end"
        happened = Counter(World(life_folder).performed_keys())
        counts["kills"] += 1
        counts["effects repeated"] += sum(count - 1 for count in happened.values())
        counts["effects missing"] += len(EFFECTS) - len(happened)
    return counts


def _process(name: str, folder: Path, kill_at: int) -> int:
    command = [sys.executable, "-m", "bench.planner.life", name, str(folder), str(kill_at)]
    return subprocess.run(command, timeout=_SECONDS, check=False).returncode


if __name__ == "__main__":
    asyncio.run(live(SYSTEMS[sys.argv[1]](), Path(sys.argv[2]), int(sys.argv[3])))
