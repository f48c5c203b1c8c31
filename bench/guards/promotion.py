"""Count how often evidence promotes guards wrongly, in simulated sessions: `python -m bench.guards.promotion`.

A world has one guard. A session meets the condition of the guard with some probability and fails with another one, so
the share of passing sessions with a firing is known. Advice avoids the mistake with a probability of its own. The rules
look after every tenth session, as the service does. Writes bench/results/guard-promotion.json.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bench.report import HERE, machine
from chassis.targets.guard import GuardMode
from libs.guards.exact_tests import find_interval
from services.evidence.domain.guard_sessions import WITHHELD_SHARE
from services.evidence.domain.guard_trials import FiredSession, GuardTrial, apply_decision, decide_mode

WORLDS = 400
SESSIONS = 4_000
LOOK_AFTER = 10
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class AdviceWorld:
    """The rates of a world: firings in passing sessions, mistakes among sessions, and what advice avoids of them."""

    false_alarms: float
    mistakes: float
    avoided: float


WORLDS_BY_NAME = {
    "useless: false alarms at 2 %, advice without effect": AdviceWorld(0.02, 0.02, 0.0),
    "useless: false alarms at 3 %, advice without effect": AdviceWorld(0.03, 0.03, 0.0),
    "half right: false alarms at 1 %, advice without effect": AdviceWorld(0.01, 0.1, 0.0),
    "loud but helpful: false alarms at 5 %": AdviceWorld(0.05, 0.2, 0.8),
    "right but ignored: no false alarms, advice without effect": AdviceWorld(0.0, 0.1, 0.0),
    "right and helpful: no false alarms, advice avoids 80 %": AdviceWorld(0.0, 0.1, 0.8),
    "nearly right and helpful: false alarms at .1 %": AdviceWorld(0.001, 0.1, 0.8),
}


def simulate(world: AdviceWorld, seed: int) -> list[tuple[int, GuardMode, GuardMode]]:
    """Return the changes of mode of one guard: the session, the mode before and the mode after."""
    draw = random.Random(seed)
    trial, passed = GuardTrial("b", "true", GuardMode.SHADOW, 0, START, 0), 0
    changes: list[tuple[int, GuardMode, GuardMode]] = []
    for session in range(1, SESSIONS + 1):
        outcome = _run_session(world, trial.mode, draw)
        passed += outcome is None or outcome.passed
        if outcome is not None:
            trial = trial.add(outcome)
        if session % LOOK_AFTER == 0 and (decided := decide_mode(trial, passed)):
            changes.append((session, trial.mode, decided[0]))
            trial = apply_decision(trial, decided[0], START, passed)
    return changes


def _run_session(world: AdviceWorld, mode: GuardMode, draw: random.Random) -> FiredSession | None:
    """Return a session with a firing, or None for a passing session without one."""
    is_withheld = mode is GuardMode.ADVISE and draw.random() < WITHHELD_SHARE
    if draw.random() < world.mistakes:
        is_avoided = mode > GuardMode.SHADOW and not is_withheld and draw.random() < world.avoided
        return FiredSession(is_avoided, is_withheld, is_made=not is_avoided, has_failed=False)
    if draw.random() < world.false_alarms:
        return FiredSession(passed=True, is_withheld=is_withheld, is_made=True, has_failed=False)
    return None


def measure(world: AdviceWorld) -> dict[str, Any]:
    """Return how many guards of a world ever reached each mode, with intervals, and where they ended."""
    runs = [simulate(world, seed) for seed in range(WORLDS)]
    reached = {
        mode.name: sum(any(after is mode for _, _, after in changes) for changes in runs)
        for mode in (GuardMode.ADVISE, GuardMode.ASK, GuardMode.DENY)
    }
    demoted = sum(any(after < before for _, before, after in changes) for changes in runs)
    return {
        "guards": WORLDS,
        "reached": {
            name: {"guards": count, "share": count / WORLDS, "interval": find_interval(count, WORLDS)}
            for name, count in reached.items()
        },
        "demoted": demoted,
        "median_session_of_advise": _find_median(runs, GuardMode.ADVISE),
        "median_session_of_ask": _find_median(runs, GuardMode.ASK),
        "median_session_of_deny": _find_median(runs, GuardMode.DENY),
    }


def _find_median(runs: list[list[tuple[int, GuardMode, GuardMode]]], mode: GuardMode) -> int | None:
    sessions = sorted(
        next(session for session, _, after in run if after is mode) for run in runs if _reaches(run, mode)
    )
    return sessions[len(sessions) // 2] if sessions else None


def _reaches(run: list[tuple[int, GuardMode, GuardMode]], mode: GuardMode) -> bool:
    return any(after is mode for _, _, after in run)


def main() -> None:
    """Measure, print and write the results."""
    results = {
        "sessions": SESSIONS,
        "worlds": {name: measure(world) for name, world in WORLDS_BY_NAME.items()},
        "machine": machine(),
    }
    text = json.dumps(results, indent=2)
    (HERE / "results" / "guard-promotion.json").write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
