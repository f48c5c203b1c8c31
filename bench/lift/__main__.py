"""Measure learning without a model: does the text that is served for a task hold the rule that the task needs?

`python -m bench.lift`: in made-up worlds 60 training tasks are recorded twice by an agent that does not know the
conventions. hansei learns the runs over its port, without a model. For 60 test tasks, whose requests are worded
differently, each memory serves text for the request, cut at the same number of tokens. The score is the share of test
tasks whose text states the rule or shows it by a right call, with the 95 % interval of Wilson, and by kind of
convention: the tool's error states the rule, the error is a bare code, or no error shows and the task fails. The rules
were tuned on `office.py` and changed after figures of `harbour.py`; `laboratory.py` and `print_shop.py` were written
and measured before the rules were changed for what they show (`bench/README.md` keeps those figures).
"""

from __future__ import annotations

import logging
import random
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Any

from rank_bm25 import BM25Okapi

from bench.lift.harbour import HARBOUR
from bench.lift.laboratory import LABORATORY
from bench.lift.office import OFFICE
from bench.lift.print_shop import PRINT_SHOP
from bench.lift.world import MadeUpWorld, Request, Run, build_test_requests, build_training_runs
from bench.report import machine, write
from hansei.client.cli.embedded_stack import build_temp_settings, embedded_client
from hansei.client.client import Client

TASKS = 60
SEEDS = (1, 2, 3)
BUDGETS = (150, 400)
CHARS_OF_A_TOKEN = 4
TOP_K = 50

Memory = Callable[[str], Sequence[str]]
"""Returns the texts for a request, best first."""


def rank_by_bm25(texts: Sequence[str]) -> Memory:
    """Return a memory that ranks texts by the words of the request."""
    index = BM25Okapi([_split_words(text) for text in texts])

    def rank(request: str) -> list[str]:
        scores = index.get_scores(_split_words(request))
        return [texts[position] for position in sorted(range(len(texts)), key=lambda position: -scores[position])]

    return rank


def _split_words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())


def cut_to_budget(texts: Sequence[str], tokens: int) -> list[str]:
    """Return the first texts that fit into the budget; the last one is cut."""
    chars = tokens * CHARS_OF_A_TOKEN
    served: list[str] = []
    for text in texts:
        if chars <= 0:
            break
        served.append(text[:chars])
        chars -= len(text) + 1
    return served


def learn(client: Client, runs: Sequence[Run], dataset: str) -> int:
    """Learn the runs with the other run of their task as sibling; return the newest revision."""
    revision = 0
    messages = [run.build_message(number, dataset) for number, run in enumerate(runs)]
    for message in messages:
        siblings = [other for other in messages if other.task_id == message.task_id and other.id != message.id]
        revision = client.learn(message, siblings=siblings).curation.revision
    return revision


def build_search_memory(client: Client, dataset: str, revision: int) -> Memory:
    """Return the memory that the search service is."""

    def rank(request: str) -> list[str]:
        found = client.search(dataset, request, top_k=TOP_K, min_confidence=0, min_revision=revision)
        return [result.bullet.content for result in found.results]

    return rank


def build_simple_memories(
    world: MadeUpWorld, runs: Sequence[Run], bullets: Sequence[str], seed: int
) -> dict[str, Memory]:
    """Return the memories that hansei is compared with."""
    clean = [run.render(is_clean=True) for run in runs if run.is_success]
    raw = [run.render(is_clean=False) for run in runs]
    errors: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for run in runs:
        for call in run.calls:
            if call.error:
                errors[call.tool][call.error] = None
    joined = [f"{tool}: {'; '.join(messages)}" for tool, messages in errors.items()]
    chance = random.Random(seed)
    return {
        "no memory": lambda request: [],
        "raw transcripts, BM25": rank_by_bm25(raw),
        "successful runs without failing calls, BM25": rank_by_bm25(clean),
        "errors joined for each tool, BM25": rank_by_bm25(joined),
        "random bullets of hansei": lambda request: chance.sample(list(bullets), len(bullets)),
        "perfect bullets by hand, BM25": rank_by_bm25([convention.rule for convention in world.conventions]),
    }


def build_row(name: str, world: MadeUpWorld, budget: int, hits: Sequence[tuple[Request, bool]]) -> dict[str, Any]:
    """Return the shares of one memory over all seeds."""
    found = [hit for _, hit in hits]
    low, high = calculate_wilson_interval(sum(found), len(found))
    row: dict[str, Any] = {"world": world.name, "tokens": budget, "memory": name, "held": round(mean(found), 3)}
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


def score_world(client: Client, world: MadeUpWorld, *, verbose: bool = False) -> list[dict[str, Any]]:
    """Return one row for each memory and budget."""
    hits: defaultdict[tuple[int, str], list[tuple[Request, bool]]] = defaultdict(list)
    for seed in SEEDS:
        runs = build_training_runs(world, TASKS, seed)
        dataset = f"{world.name}-{seed}"
        revision = learn(client, runs, dataset)
        bullets = [bullet.content for bullet in client.playbooks.get(dataset=dataset).playbook.bullets]
        if verbose:
            print(f"== {dataset}: {len(bullets)} bullets", *bullets, sep="\n", flush=True)
        memories = build_simple_memories(world, runs, bullets, seed)
        memories = {"hansei, offline": build_search_memory(client, dataset, revision), **memories}
        for request in build_test_requests(world, TASKS, seed):
            for name, memory in memories.items():
                ranked = memory(request.text)
                for budget in BUDGETS:
                    hit = request.convention.is_in(cut_to_budget(ranked, budget), request.values)
                    hits[budget, name].append((request, hit))
                    if verbose and name.startswith("hansei") and budget == BUDGETS[-1] and not hit:
                        print("MISSED", request.convention.tool, "|", request.text, "|", *ranked[:3], sep="\n   ")
    return [build_row(name, world, budget, found) for (budget, name), found in hits.items()]


def main(arguments: Sequence[str]) -> None:
    """Measure the worlds that are named, or all; write the table if all were measured."""
    logging.disable(logging.WARNING)
    worlds = [world for world in (OFFICE, HARBOUR, LABORATORY, PRINT_SHOP) if not arguments or world.name in arguments]
    with tempfile.TemporaryDirectory() as folder, embedded_client(build_temp_settings(Path(folder))) as client:
        rows = [row for world in worlds for row in score_world(client, world, verbose=bool(arguments))]
    if arguments:
        print(*rows, sep="\n")
    else:
        write("lift", {"machine": machine(), "tasks": TASKS, "recordings": 2, "seeds": list(SEEDS), "rows": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
