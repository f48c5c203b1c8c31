"""Trivial rules that mined guards must beat, each with its firings in recorded trajectories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from libs.guards.exact_tests import Stratum, compute_exact_p_values
from libs.guards.grammar import may_write, quote
from libs.guards.guard_trajectory import GuardTrajectory, Replay

Feature = tuple[str, ...]
Rule = Callable[[frozenset[Feature]], bool]
"""A function that returns whether a rule fires in a trajectory with these features."""
LARGEST_P_VALUE = 0.01
LARGEST_FALSE_ALARMS = 0.02


def extract_features(trajectory: GuardTrajectory) -> frozenset[Feature]:
    """Return the data of a trajectory that the trivial rules use."""
    return frozenset(_list_features(trajectory))


def fit_baseline_rules(
    trajectories: Sequence[GuardTrajectory], features: Sequence[frozenset[Feature]]
) -> Mapping[str, Rule]:
    """Return the trivial rules by name, learned from trajectories and their features.

    `significant_predicates` keeps simple predicates with a p-value of Fisher's test of at most 0.01 that fire in at
    most 2 % of the passing trajectories, without a correction for their number.
    """
    failed = sum(not trajectory.is_success for trajectory in trajectories)
    counts: dict[Feature, list[int]] = defaultdict(lambda: [0, 0])
    for trajectory, found in zip(trajectories, features, strict=True):
        for feature in found:
            counts[feature][trajectory.is_success] += 1
    only_failed = {feature for feature, (_, passes) in counts.items() if feature[0] == "value" and not passes}
    significant = {
        feature
        for feature, (fails, passes) in counts.items()
        if feature[0] != "write"
        and passes <= LARGEST_FALSE_ALARMS * (len(trajectories) - failed)
        and compute_exact_p_values([Stratum(len(trajectories), failed, fails + passes, fails)])[0] <= LARGEST_P_VALUE
    }
    return {
        "value_seen_only_in_failures": lambda found: not only_failed.isdisjoint(found),
        "same_call_again": lambda found: any(feature[0] == "again" for feature in found),
        "first_write_call": lambda found: ("write",) in found,
        "significant_predicates": lambda found: not significant.isdisjoint(found),
    }


def _list_features(trajectory: GuardTrajectory) -> Iterator[Feature]:
    """Yield facts about the calls: tools in order, repeated calls, writes, and values that no text or result has."""
    replay = Replay(trajectory)
    earlier: list[str] = []
    for call in replay:
        tool, session = call.request.tool, replay.session
        yield from (("before", other, tool) for other in dict.fromkeys(earlier))
        if session.repeats[call.request.key]:
            yield "again", tool
        if session.counts[tool]:
            yield "twice", tool
        if may_write(tool):
            yield ("write",)
            if not session.is_confirmed:
                yield "unconfirmed", tool
        for name, value in call.request.args.items():
            if isinstance(value, str | int | float | bool):
                yield "value", tool, name, quote(value)
            with suppress(OverflowError):  # of a number that is too large to be searched
                if not session.has_seen(value):
                    yield "unseen", tool, name
        earlier.append(tool)
