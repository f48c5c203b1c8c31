"""Measure with a real model whether memories make its next call right.

`python -m bench.lift.small_model URL [CACHE]`: URL is an OpenAI-compatible server with a small model, such as
`python -m bench.lift.model_server`, which needs `pip install '.[lift]'`. World, seed and memories are those of
`hansei eval lift --seed 101`, with one more: the lessons that a stronger model wrote, which hansei learned with a
model (`stronger_model.json` has the replies and says where they come from). Prompts and rules were developed with seed
1; of seed 101 only training trajectories were read, for these lessons. CACHE keeps the scores of prompts, so that a
interrupted measurement can be continued.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from pathlib import Path

from bench.lift.stronger_model import build_stronger_memory
from bench.report import machine, write
from hansei.client.cli.embedded_stack import build_temp_settings, embedded_client
from hansei.client.lift.generated_world import generate_world
from hansei.client.lift.measurement import prepare_lift
from hansei.client.lift.model import CachedScorer, connect
from hansei.client.lift.world import build_test_requests

SEED = 101
TASKS = 60
TOKENS = 150
STRONGER = "hansei, lessons of a stronger model"


def main(url: str, cache: Path) -> None:
    """Measure all memories and write the table."""
    logging.disable(logging.WARNING)
    scorer = connect(url, "", "")
    world = generate_world(SEED)
    started = time.monotonic()
    stronger = build_stronger_memory(world, [request.text for request in build_test_requests(world, TASKS, 1)])
    with tempfile.TemporaryDirectory() as folder, embedded_client(build_temp_settings(Path(folder))) as client:
        meter = prepare_lift(client, world, tasks=TASKS, tokens=TOKENS, seed=1)
        meter.memories = {**meter.memories, STRONGER: stronger}
        for name, done in meter.measure(CachedScorer(scorer, cache)):
            if done == TASKS:
                print(f"{time.monotonic() - started:.0f} s: {name}", flush=True)
    write(
        "lift-model",
        {"machine": machine(), "model": "SmolLM2-135M-Instruct, Q4_1", "tasks": TASKS, "tokens": TOKENS, "seed": SEED,
         "method": scorer.method, "rows": meter.build_rows()},
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkstemp(suffix=".jsonl")[1]))
