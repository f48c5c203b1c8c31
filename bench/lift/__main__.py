"""Measure learning without a model: does the text that is served for a task hold the rule that the task needs?

`python -m bench.lift`: in made-up worlds 60 training tasks are recorded twice by an agent that does not know the
conventions. hansei learns the trajectories over its port, without a model. For 60 test tasks, whose requests are worded
differently, each memory serves text for the request, cut at the same number of tokens. The score is the share of test
tasks whose text states the rule or shows it by a right call, with the 95 % interval of Wilson, and by kind of
convention: the tool's error states the rule, the error is a bare code, or no error shows and the task fails. The rules
were tuned on `office.py` and changed after figures of `harbour.py`; `laboratory.py` and `print_shop.py` were written
and measured before the rules were changed for what they show (`bench/README.md` keeps those figures).
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Any

from bench.lift.harbour import HARBOUR
from bench.lift.laboratory import LABORATORY
from bench.lift.office import OFFICE
from bench.lift.print_shop import PRINT_SHOP
from bench.report import machine, write
from hansei.client.cli.embedded_stack import build_temp_settings, embedded_client
from hansei.client.client import Client
from hansei.client.lift.generated_world import generate_world
from hansei.client.lift.memories import (
    HANSEI,
    build_search_memory,
    build_simple_memories,
    cut_to_budget,
    learn_trajectories,
    list_bullets,
)
from hansei.client.lift.world import MadeUpWorld, Request, build_test_requests, build_training_trajectories

TASKS = 60
SEEDS = (1, 2, 3)
BUDGETS = (150, 400, 8_000)
"""Tokens; the last one is the default of `HANSEI_PLAYBOOK_BUDGET_TOKENS`."""
HELD_OUT = range(201, 207)
"""The seeds of generated worlds that nobody looked at before they were measured."""


def build_row(name: str, world: str, budget: int, hits: Sequence[tuple[Request, bool]]) -> dict[str, Any]:
    """Return the shares of one memory over all seeds."""
    found = [hit for _, hit in hits]
    low, high = calculate_wilson_interval(sum(found), len(found))
    row: dict[str, Any] = {"world": world, "tokens": budget, "memory": name, "held": round(mean(found), 3)}
    row["interval"] = f"{low:.2f}-{high:.2f}"
    for kind in ("error states it", "bare code", "no error"):
        row[kind] = round(mean(hit for request, hit in hits if request.convention.kind == kind), 3)
    return row


def calculate_wilson_interval(hits: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share."""
    z, share = 1.96, hits / count
    centre = share + z * z / (2 * count)
    half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(0.0, (centre - half) / (1 + z * z / count)), min(1.0, (centre + half) / (1 + z * z / count))


def score_world(
    client: Client, world: MadeUpWorld, seeds: Sequence[int], *, verbose: bool = False
) -> list[dict[str, Any]]:
    """Return one row for each memory and budget."""
    hits = collect_hits(client, world, seeds, verbose=verbose)
    return [build_row(name, world.name, budget, found) for (budget, name), found in hits.items()]


def collect_hits(
    client: Client, world: MadeUpWorld, seeds: Sequence[int], *, verbose: bool = False
) -> dict[tuple[int, str], list[tuple[Request, bool]]]:
    """Return the test requests of a world, each with whether the served text holds its rule, by budget and memory."""
    hits: defaultdict[tuple[int, str], list[tuple[Request, bool]]] = defaultdict(list)
    for seed in seeds:
        trajectories = build_training_trajectories(world, TASKS, seed)
        dataset = f"{world.name}-{seed}"
        revision = learn_trajectories(client, trajectories, dataset)
        bullets = list_bullets(client, dataset)
        if verbose:
            print(f"== {dataset}: {len(bullets)} bullets", *bullets, sep="\n", flush=True)
        memories = build_simple_memories(world, trajectories, bullets, seed)
        memories = {HANSEI: build_search_memory(client, dataset, revision), **memories}
        for request in build_test_requests(world, TASKS, seed):
            for name, memory in memories.items():
                ranked = memory(request.text)
                for budget in BUDGETS:
                    hit = request.convention.is_in(cut_to_budget(ranked, budget), request.values)
                    hits[budget, name].append((request, hit))
                    if verbose and name.startswith("hansei") and budget == BUDGETS[1] and not hit:
                        print("MISSED", request.convention.tool, "|", request.text, "|", *ranked[:3], sep="\n   ")
    return hits


def main(arguments: Sequence[str]) -> None:
    """Measure the synthetic worlds with these names, or all; write the tables if all were measured."""
    logging.disable(logging.WARNING)
    worlds = [world for world in (OFFICE, HARBOUR, LABORATORY, PRINT_SHOP) if not arguments or world.name in arguments]
    generated = [] if arguments else [generate_world(seed) for seed in HELD_OUT]
    with tempfile.TemporaryDirectory() as folder, embedded_client(build_temp_settings(Path(folder))) as client:
        rows = [row for world in worlds for row in score_world(client, world, SEEDS, verbose=bool(arguments))]
        hits: defaultdict[tuple[int, str], list[tuple[Request, bool]]] = defaultdict(list)
        for world in generated:
            for key, found in collect_hits(client, world, SEEDS[:1]).items():
                hits[key] += found
    if arguments:
        print(*rows, sep="\n")
        return
    facts = {"machine": machine(), "tasks": TASKS, "recordings": 2}
    write("lift", {**facts, "seeds": list(SEEDS), "rows": rows})
    held_out = [build_row(name, "held out", budget, found) for (budget, name), found in hits.items()]
    write("lift-generated", {**facts, "worlds": list(HELD_OUT), "rows": held_out})


if __name__ == "__main__":
    main(sys.argv[1:])
