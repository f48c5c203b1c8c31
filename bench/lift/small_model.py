"""Measure with a real model whether memories make its next call right.

`python -m bench.lift.small_model URL [CACHE]`: URL is an OpenAI-compatible server with a small model, such as
`python -m bench.lift.model_server`, which needs `pip install '.[lift]'`. The worlds 101 and 208 to 213 and the memories
are those of `hansei eval lift`. World 101 has one more memory: lessons that a stronger model wrote
(`stronger_model.json` has its replies and says where they come from). The rules were developed with the worlds 1 to 4,
101, 102 and 207. Nobody has read texts of the worlds 208 to 213, and the worlds 210 to 213 were first measured after
the present rules were chosen; there hansei is compared with the strongest simple memory only, because each memory takes
minutes. CACHE keeps the scores of prompts, so that an interrupted measurement can be continued.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.lift.stronger_model import build_stronger_memory
from bench.report import machine, write
from hansei.client.cli.embedded_stack import build_temp_settings, embedded_client
from hansei.client.lift.agent import Scorer
from hansei.client.lift.generated_world import generate_world
from hansei.client.lift.measurement import LiftMeter, prepare_lift
from hansei.client.lift.memories import HANSEI, STRONGEST_SIMPLE_MEMORY
from hansei.client.lift.model import CachedScorer, connect
from hansei.client.lift.world import build_test_requests

SEED = 101
HELD_OUT = (208, 209, 210, 211, 212, 213)
"""The seeds of generated worlds whose texts nobody has read."""
COMPARED = (HANSEI, STRONGEST_SIMPLE_MEMORY)
TASKS = 60
TOKENS = 150
STRONGER = "hansei, lessons of a stronger model"


def measure(seed: int, scorer: Scorer) -> LiftMeter:
    """Measure hansei and the strongest simple memory on held-out worlds, all memories on others; print each one."""
    world = generate_world(seed)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, embedded_client(build_temp_settings(Path(folder))) as client:
        meter = prepare_lift(client, world, tasks=TASKS, tokens=TOKENS, seed=1)
        if seed in HELD_OUT:
            meter.memories = {name: meter.memories[name] for name in COMPARED}
        else:
            requests = [request.text for request in build_test_requests(world, TASKS, 1)]
            meter.memories = {**meter.memories, STRONGER: build_stronger_memory(world, requests)}
        for name, done in meter.measure(scorer):
            if done == TASKS:
                print(f"world {seed}, {time.monotonic() - started:.0f} s: {name}", flush=True)
    return meter


def join(meters: Sequence[LiftMeter]) -> LiftMeter:
    """Return the tasks and scores of several worlds as one."""
    tasks = [task for meter in meters for task in meter.tasks]
    scores = {name: [score for meter in meters for score in meter.scores[name]] for name in meters[0].scores}
    return replace(meters[0], tasks=tasks, scores=scores)


def main(url: str, cache: Path) -> None:
    """Measure the worlds and write their tables."""
    logging.disable(logging.WARNING)
    scorer = CachedScorer(connect(url, "", ""), cache)
    facts = {"machine": machine(), "model": "SmolLM2-135M-Instruct, Q4_1", "tokens": TOKENS, "method": scorer.method}
    for table, seeds in (("lift-model", (SEED,)), ("lift-model-held-out", HELD_OUT)):
        meter = join([measure(seed, scorer) for seed in seeds])
        write(table, {**facts, "tasks": len(meter.tasks), "seeds": list(seeds), "rows": meter.build_rows()})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkstemp(suffix=".jsonl")[1]))
