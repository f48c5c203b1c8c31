"""Measure guards: `python -m bench.guards`. Writes bench/results/guards.json."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.guards.archive import count_with_demotions
from bench.guards.coding_agent import KINDS, TASKS_OF_A_KIND, build_trajectory
from bench.guards.examples import check_calls, count_calls, count_firings_in_files, describe_firings
from bench.report import machine
from chassis.targets.guard import MAX_EXHAUSTIONS, CallGuard, GuardIndex, GuardMode, find_matches
from chassis.targets.session import SessionHistory, ToolCallRequest
from chassis.targets.target import Target
from libs.guards.exact_tests import find_interval
from libs.guards.guard_trajectory import GuardTrajectory, Replay, matches
from libs.guards.repairs import select_repairs

DATA = Path(os.environ.get("HANSEI_DATA", "../shared/data"))
RESULTS = Path(__file__).parents[1] / "results" / "guards.json"
SEEDS = 5
EARLIER = 2
"""Runs of a kind from which guards are learned; the others are checked."""
GUARDS = 200
EARLIER_CALLS = 200
SPEED_TARGETS = {
    "check_us": "call.tool == 'tool_{tool}' && !succeeded('get_{n}') && call.args.amount > {n}",
    "check_of_guards_of_every_tool_us": "count(call.tool) > {limit}",
    "check_of_joined_conditions_us": "count(call.tool) >= 1 && !succeeded('tool_{tool}')",
    "check_of_different_joined_conditions_us": "succeeded('tool_{tool}') && call.args.amount > {limit}",
    "check_of_unlike_joined_conditions_us": "count(call.tool) < {limit} && call.args.amount > {limit}",
    "check_of_guards_that_cannot_be_evaluated_us": "call.args.missing > {n}",
}
"""The targets of 200 guards each, by the key of the result; see `_build_guards`."""
HOSTILE = "call.args.l.exists(x, call.args.t.contains('b') || call.args.l.exists(y, x + y == -1))"


def measure_repeated_mistakes(*, is_hard: bool) -> dict[str, Any]:
    """Learn targets from the first trajectories of each kind, and check the calls of the later ones."""
    earlier = [build_trajectory(kind, number, is_hard=is_hard) for kind in KINDS for number in range(EARLIER)]
    targets = [Target(repair.target) for repair in select_repairs(earlier)]
    later = [
        build_trajectory(kind, number, is_hard=is_hard, seed=seed)
        for seed in range(SEEDS)
        for kind in KINDS
        for number in range(EARLIER, TASKS_OF_A_KIND)
    ]
    return {
        "targets": [target.source for target in targets],
        "guards": _count_firings(targets, later),
        "guards, learned again after each trajectory": _measure_continued_learning(is_hard=is_hard),
        "by_kind": {
            kind: _count_firings(targets, [trajectory for trajectory in later if trajectory.id.startswith(kind)])
            for kind in KINDS
        },
        "baseline: same call again": _count_firings([Target("repeats() > 0")], later),
    }


def _measure_continued_learning(*, is_hard: bool) -> dict[str, Any]:
    """Check the later trajectories of each variant in turn, with the targets that no earlier trajectory contradicts."""
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        trajectories = [
            build_trajectory(kind, number, is_hard=is_hard, seed=seed)
            for number in range(TASKS_OF_A_KIND)
            for kind in KINDS
        ]
        for position in range(EARLIER * len(KINDS), len(trajectories)):
            targets = [Target(repair.target) for repair in select_repairs(trajectories[:position])]
            counts.update(_count_calls(targets, trajectories[position]))
    return _describe_counts(counts)


def _count_firings(targets: Sequence[Target], trajectories: Sequence[GuardTrajectory]) -> dict[str, Any]:
    """Count the mistakes and the correct calls of trajectories, each with a firing before the call."""
    counts: Counter[str] = Counter()
    for trajectory in trajectories:
        counts.update(_count_calls(targets, trajectory))
    return _describe_counts(counts)


def _count_calls(targets: Sequence[Target], trajectory: GuardTrajectory) -> Counter[str]:
    """Count the mistakes, calls that their tool refuses, and the correct calls, each with a firing before the call.

    A first failed call of the kind `version` is no repeated mistake that a target can know: its repetitions are.
    """
    counts: Counter[str] = Counter()
    replay = Replay(trajectory)
    for call in replay:
        fires = any(matches(target, call, replay) for target in targets)
        if not call.error:
            counts.update(correct=1, correct_with_firing=fires)
        elif call.request.tool != "install" or replay.session.repeats[call.request.key]:
            counts.update(mistakes=1, mistakes_with_firing=fires)
    return counts


def _describe_counts(counts: Counter[str]) -> dict[str, Any]:
    return {
        "repeated_mistakes": counts["mistakes"],
        "with_a_firing": counts["mistakes_with_firing"],
        "interval": find_interval(counts["mistakes_with_firing"], counts["mistakes"]),
        "correct_calls": counts["correct"],
        "correct_calls_with_a_firing": counts["correct_with_firing"],
        "correct_interval": find_interval(counts["correct_with_firing"], counts["correct"]),
    }


def measure_speed() -> dict[str, float]:
    """Measure the processor time of a local check with many guards, and of compiling, in microseconds and seconds."""
    session = SessionHistory()
    for number in range(EARLIER_CALLS):
        call = ToolCallRequest(f"tool_{number % 40}", {"amount": number, "id": f"A-{number}"})
        session.add_call(call, {"status": "done", "id": f"A-{number}"}, is_success=True)
    calls = [ToolCallRequest(f"tool_{number % 40}", {"amount": number}) for number in range(400)]
    times: dict[str, float] = {}
    for name, target in SPEED_TARGETS.items():
        check = partial(_check_calls, GuardIndex(_build_guards(target)), calls, session)
        times[name] = 1e6 * _measure(check) / len(calls)
    sources = [guard.target.source for guard in _build_guards(SPEED_TARGETS["check_us"])]
    compiling = _measure(lambda: [Target(sources[number % GUARDS]) for number in range(1000)], rounds=3)
    return {**times, "compile_1000_s": compiling}


def _check_calls(guards: GuardIndex, calls: Sequence[ToolCallRequest], session: SessionHistory) -> None:
    for call in calls:
        find_matches(guards, call, session)


def _build_guards(target: str) -> list[CallGuard]:
    """Return guards with this target; `{n}` is the number of a guard, `{limit}` is 1,000 more, `{tool}` one of 40."""
    sources = (target.format(n=number, tool=number % 40, limit=number + 1000) for number in range(GUARDS))
    return [CallGuard(f"b-{n}", Target(source), GuardMode.ADVISE, "x") for n, source in enumerate(sources)]


def measure_hostile_target() -> dict[str, float]:
    """Measure checks with a target that takes all its steps beside 200 guards: until it is suspended, and after."""
    guards = _build_guards(SPEED_TARGETS["check_of_guards_of_every_tool_us"])
    hostile = CallGuard("hostile", Target(HOSTILE), GuardMode.DENY, "x")
    call = ToolCallRequest("refund", {"l": list(range(5_000)), "t": "a" * 1_000_000})
    index, session, times = GuardIndex([hostile, *guards]), SessionHistory(), []
    for _ in range(10 * MAX_EXHAUSTIONS):
        began = time.process_time()
        find_matches(index, call, session)
        times.append(1e3 * (time.process_time() - began))
    return {
        "suspended_after_checks": hostile.failures.exhaustions,
        "check_before_ms": statistics.median(times[:MAX_EXHAUSTIONS]),
        "longest_check_before_ms": max(times[:MAX_EXHAUSTIONS]),
        "check_after_ms": statistics.median(times[MAX_EXHAUSTIONS:]),
    }


def _measure(work: Callable[[], object], rounds: int = 15) -> float:
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def _join_sources(results: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of the scripted agent and of all mistakes of the examples together, for each rule."""
    examples = results["repeated_mistakes_in_the_examples"]["all"]
    hard = results["repeated_mistakes_in_the_hard_world"]
    by_rule = {
        "no surprises": results["repeated_mistakes"]["guards"],
        "hard world": hard["guards"],
        "hard world, demoted by the evidence service": results["repeated_mistakes_in_the_hard_world_with_demotions"],
        "hard world, learned again": hard["guards, learned again after each trajectory"],
    }
    return {rule: _describe_counts(_read_counts(counts) + _read_counts(examples)) for rule, counts in by_rule.items()}


def _read_counts(described: dict[str, Any]) -> Counter[str]:
    return Counter(
        mistakes=described["repeated_mistakes"],
        mistakes_with_firing=described["with_a_firing"],
        correct=described["correct_calls"],
        correct_with_firing=described["correct_calls_with_a_firing"],
    )


def main() -> None:
    """Measure, print and write the results."""
    checked = list(check_calls())
    results: dict[str, Any] = {
        "repeated_mistakes": measure_repeated_mistakes(is_hard=False),
        "repeated_mistakes_in_the_hard_world": measure_repeated_mistakes(is_hard=True),
        "repeated_mistakes_in_the_hard_world_with_demotions": _describe_counts(
            asyncio.run(count_with_demotions(SEEDS, EARLIER, _count_calls))
        ),
        "repeated_mistakes_in_the_examples": {
            name: _describe_counts(counts) for name, counts in count_calls(checked).items()
        },
        "firings_on_calls_of_the_examples_that_did_not_fail": describe_firings(checked),
    }
    results |= {
        "repeated_mistakes_of_both_sources": _join_sources(results),
        "failed_calls_in_recorded_files": {
            name: _describe_counts(counts) for name, counts in count_firings_in_files(DATA).items()
        },
        "speed": measure_speed(),
        "hostile_target": measure_hostile_target(),
        "machine": machine(),
    }
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
