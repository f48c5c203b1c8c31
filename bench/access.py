"""Measure whether the duration of a refusal shows a tenant that a resource of another tenant exists.

`python -m bench.access` writes `bench/results/access.json` and the table in `bench/README.md`. The tenant requests
existing and absent names in random order, over gRPC at one gateway, and owns neither. `guess` is how often the slower
of two answers is that about what exists (the area under the ROC curve, Mann-Whitney U over all pairs): 0.5 is what
guessing gives. `p` is the probability of a guess at least that far from 0.5 if both took the same time. The last row
is the control: the same for the tenant's own, where one is read and the other is not there: a difference would be
found.
"""

from __future__ import annotations

import math
import os
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.report import machine, write
from chassis.errors import NotFound
from hansei.client import Client
from hansei.gateway.v1.access_service_pb2 import AccessScope
from hansei.planner.v1 import planner_pb2 as planner
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard
from tests.support import systems
from tests.support.bulk_jobs import build_trajectories, parts

PAIRS = 4_000
UNCOUNTED = 200
ASK = planner.PlanStep(step_id=1, action=planner.ACTION_ASK_USER, description="ask", query="Which?")
DELTA = playbook.Delta(type=playbook.DELTA_TYPE_ADD, section="git", content="Set user.email first.", reasoning="seen")
FAMILIES: dict[str, Callable[[Client, str], Any]] = {
    "dataset": lambda client, name: client.playbooks.get(dataset=name),
    "collection": lambda client, name: client.collections.get(name=name),
    "execution": lambda client, name: client.planner.get_execution(execution_id=name),
    "leaderboard": lambda client, name: client.leaderboard.get_ranking(execution_id=name),
    "job": lambda client, name: client.jobs.get(job_id=name),
}


def main() -> None:
    """Measure and write."""
    rng = random.Random(7)
    with _tenants() as (acme, evil):
        names = _create_resources(acme)
        rows = [_row(family, evil, names[family], rng) for family in FAMILIES]
        rows.append({**_row("execution", acme, names["execution"], rng), "what": "control: one's own execution"})
    write("access", {"machine": machine() | {"load": f"{os.getloadavg()[0]:.1f}"}, "rows": rows})


@contextmanager
def _tenants() -> Iterator[tuple[Client, Client]]:
    """Yield two tenants' clients of a hansei in one process."""
    with (
        tempfile.TemporaryDirectory() as folder,
        systems.one_process(Path(folder), GATEWAY_API_TOKEN="root", HANSEI_LOG_LEVEL="ERROR") as system,
        Client(system.address, token="root") as operator,
    ):
        scope = [AccessScope.Value("ACCESS_SCOPE_ADMIN")]
        keys = [operator.access.create_key(label="bench", tenant=name, scopes=scope).text for name in ("acme", "evil")]
        with Client(system.address, token=keys[0]) as acme, Client(system.address, token=keys[1]) as evil:
            yield acme, evil


def _create_resources(acme: Client) -> dict[str, tuple[str, str]]:
    """Create resources of acme; return for each family an existing name and an absent one of the same shape."""
    acme.playbooks.apply_deltas(dataset="acme--one", deltas=[DELTA])
    acme.collections.create(name="acme--one")
    plan = planner.Plan(original_query="Which?", complexity=0.5, steps=[ASK])
    *_, pause = acme.planner.execute_plan(plan=plan)
    key = leaderboard.RoundKey(execution_id="acme--one", team_id="t", round_number=1)
    entry = leaderboard.LeaderBoardEntry(key=key, team_name="T", submission_content="x", score=1)
    acme.leaderboard.upsert_entry(entry=entry)
    job_id = acme.jobs.submit(parts("acme--one", build_trajectories("acme--one", 1), str(uuid.uuid4()))).job.job_id
    found = dict.fromkeys(FAMILIES, ("acme--one", "acme--two"))
    found["execution"] = (pause.event.execution_id, "acme--0123456789ab")
    return found | {"job": (job_id, str(uuid.uuid4()))}


def _row(family: str, client: Client, names: tuple[str, str], rng: random.Random) -> dict[str, Any]:
    there, absent = _time_calls(lambda name: FAMILIES[family](client, name), names, rng)
    guess, p = compare_durations(there, absent)
    return {
        "what": family,
        "calls": 2 * PAIRS,
        **{f"anothers_p{q}_us": float(np.percentile(there, q)) for q in (10, 50, 90)},
        **{f"absent_p{q}_us": float(np.percentile(absent, q)) for q in (10, 50, 90)},
        "guess": round(guess, 3),
        "p": round(p, 3),
    }


def _time_calls(call: Callable[[str], Any], names: tuple[str, str], rng: random.Random) -> list[NDArray[np.float64]]:
    """Return the microseconds of each call for each of the two names, called in random order."""
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(UNCOUNTED + PAIRS):
        for which in rng.sample((0, 1), 2):
            began = time.perf_counter_ns()
            with suppress(NotFound):
                call(names[which])
            if number >= UNCOUNTED:
                took[which].append((time.perf_counter_ns() - began) / 1_000)
    return [np.array(durations) for durations in took]


def compare_durations(some: NDArray[np.float64], others: NDArray[np.float64]) -> tuple[float, float]:
    """Return how often one of `some` exceeds one of `others` (ties half) and its two-sided p (Mann, Whitney 1947)."""
    both = np.concatenate([some, others])
    _, positions, count = np.unique(both, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count - 1) / 2
    n, m = len(some), len(others)
    u = float(middle[positions][:n].sum()) - n * (n + 1) / 2
    ties = float((count.astype(float) ** 3 - count).sum()) / ((n + m) * (n + m - 1))
    deviation = math.sqrt(n * m / 12 * ((n + m + 1) - ties))
    return u / (n * m), math.erfc(abs(u - n * m / 2) / deviation / math.sqrt(2))


if __name__ == "__main__":
    main()
