"""Conversion between the messages of the evidence service and the domain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chassis.server.messages import decode, encode
from hansei.evidence.v1 import evidence_pb2
from services.evidence.domain.discoveries import find_block
from services.evidence.domain.effects import EffectStatistics, estimate_effect
from services.evidence.domain.intervals import Interval, compute_interval
from services.evidence.domain.policy import TrialPolicy
from services.evidence.domain.trials import (
    INTERVAL_ERROR,
    BulletDecision,
    BulletTrial,
    DatasetTrials,
    EffectPoint,
)

LARGEST_EVIDENCE = 700.0
"""The largest logarithm of evidence that a double holds."""


def decode_policy(message: evidence_pb2.TrialPolicy) -> TrialPolicy:
    """Return the policy of a message; unset fields have their defaults."""
    return TrialPolicy(**{name: value for name, value in decode(message).items() if value is not None})


def encode_effect(statistics: EffectStatistics, probability: float) -> evidence_pb2.Effect:
    """Return an effect, measured with this probability of serving."""
    return _encode_effect(statistics, compute_interval(statistics, probability, INTERVAL_ERROR))


def encode_effects(measured: Sequence[EffectStatistics], probability: float) -> list[evidence_pb2.Effect]:
    """Return many effects, measured with the same probability of serving; faster than one by one."""
    if not measured:
        return []
    columns = EffectStatistics(*(np.array(column) for column in zip(*measured, strict=True)))
    lowers, uppers = compute_interval(columns, probability, INTERVAL_ERROR)
    intervals = map(Interval, lowers, uppers)
    return [_encode_effect(effect, interval) for effect, interval in zip(measured, intervals, strict=True)]


def _encode_effect(statistics: EffectStatistics, interval: Interval) -> evidence_pb2.Effect:
    return evidence_pb2.Effect(
        served=_encode_arm(statistics.served, statistics.served_total),
        withheld=_encode_arm(statistics.withheld, statistics.withheld_total),
        difference=float(estimate_effect(statistics)),
        lower=float(interval.lower),
        upper=float(interval.upper),
        evidence=float(np.exp(min(statistics.evidence, LARGEST_EVIDENCE))),
    )


def encode_bullet_effects(trials: Sequence[BulletTrial], policy: TrialPolicy) -> list[evidence_pb2.BulletEffect]:
    """Return the effects of bullets."""
    effects = encode_effects([trial.statistics for trial in trials], 1.0 - policy.bullet_holdout)
    messages = []
    for trial, effect in zip(trials, effects, strict=True):
        block = find_block(trial.position, policy.false_discovery_rate)
        messages.append(
            encode(
                trial,
                evidence_pb2.BulletEffect,
                state=trial.state.name,
                state_started_at=trial.since,
                effect=effect,
                required_evidence=float(np.exp(block.largest_requirement)),
            )
        )
    return messages


def encode_points(points: Sequence[EffectPoint], probability: float) -> list[evidence_pb2.EffectPoint]:
    """Return the points of a history, measured with this probability of serving."""
    effects = encode_effects([point.statistics for point in points], probability)
    return [
        encode(point, evidence_pb2.EffectPoint, effect=effect) for point, effect in zip(points, effects, strict=True)
    ]


def encode_checks(trials: DatasetTrials) -> list[evidence_pb2.AssignmentCheck]:
    """Return the checks of the random assignment."""
    return [
        evidence_pb2.AssignmentCheck(
            name=name,
            served=counts.served,
            withheld=counts.withheld,
            expected_share=1.0 - trials.policy.playbook_holdout,
            failed=failed,
        )
        for name, counts, failed in trials.list_checks()
    ]


def encode_decision(number: int, decision: BulletDecision, policy: TrialPolicy) -> evidence_pb2.Decision:
    """Return a decision."""
    return encode(
        decision,
        evidence_pb2.Decision,
        number=number,
        before=decision.before.name,
        after=decision.after.name,
        effect=encode_effect(decision.statistics, 1.0 - policy.bullet_holdout),
        undone=decision.is_undone,
    )


def _encode_arm(sessions: float, total: float) -> evidence_pb2.ArmSummary:
    return evidence_pb2.ArmSummary(sessions=round(sessions), success_rate=total / sessions if sessions else 0.0)
