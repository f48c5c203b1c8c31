"""`hansei eval lift`: measure the lift on a temporary offline stack with a model behind an OpenAI-compatible server."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hansei.client.cli.embedded_stack import build_temp_settings, embedded_client
from hansei.client.cli.options import Exit, fail
from hansei.client.cli.output import create_console
from hansei.client.cli.show.progress import progress_bar
from hansei.client.lift.generated_world import generate_world
from hansei.client.lift.measurement import prepare_lift
from hansei.client.lift.model import CachedScorer, connect


def measure_lift(
    base_url: str, model: str, tasks: int, tokens: int, seed: int, cache: Path | None, *, by_letters: bool
) -> dict[str, Any]:
    """Return the scores of all memories as JSON. Ends the command if the server does not answer."""
    from openai import OpenAIError

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hansei-lift-")))
        try:
            scorer = connect(base_url, os.environ.get("OPENAI_API_KEY", ""), model, by_letters=by_letters)
            client = stack.enter_context(embedded_client(build_temp_settings(directory)))
            meter = prepare_lift(client, generate_world(seed), tasks=tasks, tokens=tokens, seed=1)
            total = tasks * len(meter.memories)
            set_completed = stack.enter_context(progress_bar("measuring", total, create_console(stderr=True)))
            cached_scorer = CachedScorer(scorer, cache or directory / "scores.jsonl")
            for completed, _ in enumerate(meter.measure(cached_scorer), 1):
                set_completed(completed)
        except OpenAIError as error:
            fail(f"the model server {base_url} failed: {error}", Exit.MODEL_UNAVAILABLE)
    return {
        "world": meter.world.name,
        "tasks": tasks,
        "tokens": tokens,
        "method": scorer.method,
        "rows": meter.build_rows(),
    }
