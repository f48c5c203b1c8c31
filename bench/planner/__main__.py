"""Measure the planner and its baselines: ``python -m bench.planner`` writes results.json and prints the table."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.planner.dags import random_dag
from bench.planner.life import SYSTEMS, count_repeated_effects
from bench.planner.measurements import Figures, cpu_per_step, measure_makespans, measure_pauses, run_in_process
from bench.planner.planner_system import payload_of_a_pause

RESULTS = Path(__file__).with_name("results.json")
README = Path(__file__).with_name("README.md")
MARK = "<!-- table -->"


def stages(arguments: argparse.Namespace, names: list[str]) -> dict[str, Callable[[], dict[str, Figures]]]:
    """Return the stages by name; each measures all systems, and can be repeated without the others."""

    def makespan() -> dict[str, Figures]:
        rng = random.Random(arguments.seed)
        dags = [random_dag(rng, arguments.scale) for _ in range(arguments.dags)]
        found: dict[str, Figures] = run_in_process(measure_makespans, names, dags, arguments.at_once)
        return found

    def steps() -> dict[str, Figures]:
        return {name: run_in_process(cpu_per_step, name, arguments.plans) for name in names}

    def pauses() -> dict[str, Figures]:
        counts = dict.fromkeys(names, arguments.baselines_paused) | {"hansei": arguments.paused}
        return {name: run_in_process(measure_pauses, name, counts[name]) for name in names}

    def kills() -> dict[str, Figures]:
        with tempfile.TemporaryDirectory() as folder:
            return {name: count_repeated_effects(name, Path(folder)) for name in names}

    return {stage.__name__: stage for stage in (makespan, steps, pauses, kills)}


def measure_stages(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the chosen stages again and return all figures of the file."""
    names = ["hansei"] if arguments.alone else list(SYSTEMS)
    found: dict[str, Any] = json.loads(arguments.into.read_text()) if arguments.into.exists() else {}
    versions = {name: importlib.metadata.version(name.lower()) for name in names if name != "hansei"}
    found["machine"] = {"python": platform.python_version(), "cpus": os.cpu_count(), **versions}
    found["setting"] = {name: value for name, value in vars(arguments).items() if isinstance(value, int | float)}
    found["setting"]["payload of a paused execution, bytes"] = payload_of_a_pause()
    for stage, measure in stages(arguments, names).items():
        if stage not in (arguments.only or [stage]):
            continue
        before, began = os.getloadavg()[0], time.time()
        results = measure()
        ran = {"load before": round(before, 1), "load after": round(os.getloadavg()[0], 1)}
        ran["seconds"] = round(time.time() - began)
        found.setdefault("stages", {})[stage] = {**ran, "results": results}
        arguments.into.write_text(json.dumps(found, indent=2) + "\n")
    return found


def table(found: dict[str, Any]) -> str:
    """Return the figures as a table, one column for each system."""
    rows: dict[str, dict[str, str]] = {}
    systems: dict[str, None] = {}
    for stage in found["stages"].values():
        for system, figures in stage["results"].items():
            systems[system] = None
            for name, value in figures.items():
                for part, number in value.items() if isinstance(value, dict) else (("", value),):
                    rows.setdefault(f"{name} {part}".strip(), {})[system] = format_number(number)
    lines = ["| | " + " | ".join(systems) + " |", "|---" * (len(systems) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cells.get(s, "") for s in systems) + " |" for name, cells in rows.items()]
    return "\n".join([*lines, "", _format_machine_load(found)]) + "\n"


def _format_machine_load(found: dict[str, Any]) -> str:
    """Format the load of the machine during each stage."""
    loads = [
        f"{name}: " + ", ".join(f"{key} {value:g}" for key, value in stage.items() if key.startswith("load"))
        for name, stage in found["stages"].items()
    ]
    return f"{found['machine']['cpus']} cores, shared with others. " + "; ".join(loads) + "."


def format_number(number: float) -> str:
    return f"{number:,.0f}" if isinstance(number, int) or number >= 1e3 else f"{number:,.4g}"


def main() -> None:
    """Measure, write the file, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dags", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=4, help="DAGs executed at the same time")
    parser.add_argument("--plans", type=int, default=50)
    parser.add_argument("--paused", type=int, default=100_000)
    parser.add_argument("--baselines-paused", type=int, default=2_000)
    parser.add_argument("--scale", type=float, default=3.0, help="1: steps of 20 to 400 ms")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--alone", action="store_true", help="measure hansei only, without its baselines")
    parser.add_argument("--only", action="append", help="a stage: makespan, steps, pauses or kills")
    parser.add_argument("--into", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    shown = table(measure_stages(arguments))
    print(shown)
    if arguments.into == RESULTS:
        head, mark, _ = README.read_text().partition(MARK)
        README.write_text(f"{head}{mark}\n\n{shown}")


if __name__ == "__main__":
    main()
