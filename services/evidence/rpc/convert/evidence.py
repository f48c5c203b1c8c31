"""Conversion between the messages of the evidence service and the domain."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from hansei.evidence.v1 import evidence_pb2
from services.evidence.domain.discoveries import find_block
from services.evidence.domain.effects import EffectStatistics, compute_interval, estimate_effect
from services.evidence.domain.policy import TrialPolicy
from services.evidence.domain.trials import INTERVAL_ERROR, BulletDecision, BulletState, BulletTrial, DatasetTrials

STATES = {
    BulletState.TRIAL: evidence_pb2.BULLET_STATE_TRIAL,
    BulletState.PROVEN: evidence_pb2.BULLET_STATE_PROVEN,
    BulletState.HARMFUL: evidence_pb2.BULLET_STATE_HARMFUL,
    BulletState.NO_EFFECT: evidence_pb2.BULLET_STATE_NO_EFFECT,
}
LARGEST_EVIDENCE = 700.0
"""The largest logarithm of evidence that a double holds."""


def decode_policy(message: evidence_pb2.TrialPolicy) -> TrialPolicy:
    """Return the policy of a message; unset fields have their defaults."""
    names = [field.name for field in fields(TrialPolicy)]
    return TrialPolicy(**{name: getattr(message, name) for name in names if message.HasField(name)})  # type: ignore[arg-type]


def encode_policy(policy: TrialPolicy) -> evidence_pb2.TrialPolicy:
    """Return a policy, complete."""
    return evidence_pb2.TrialPolicy(
        bullet_holdout=policy.bullet_holdout,
        playbook_holdout=policy.playbook_holdout,
        audit_holdout=policy.audit_holdout,
        false_discovery_rate=policy.false_discovery_rate,
        margin=policy.margin,
    )


def encode_effect(statistics: EffectStatistics, probability: float) -> evidence_pb2.Effect:
    """Return an effect, measured with this probability of serving."""
    lower, upper = compute_interval(statistics, probability, INTERVAL_ERROR)
    return evidence_pb2.Effect(
        served=_encode_arm(statistics.served, statistics.served_total),
        withheld=_encode_arm(statistics.withheld, statistics.withheld_total),
        difference=float(estimate_effect(statistics)),
        lower=float(lower),
        upper=float(upper),
        evidence=float(np.exp(min(statistics.evidence, LARGEST_EVIDENCE))),
    )


def encode_bullet_effect(trial: BulletTrial, policy: TrialPolicy) -> evidence_pb2.BulletEffect:
    """Return the effect of a bullet."""
    block = find_block(trial.position, policy.false_discovery_rate)
    message = evidence_pb2.BulletEffect(
        bullet_id=trial.bullet_id,
        text_version=trial.text_version,
        state=STATES[trial.state],
        effect=encode_effect(trial.statistics, 1.0 - policy.bullet_holdout),
        required_evidence=float(np.exp(block.largest_requirement)),
    )
    message.since.FromDatetime(trial.since)
    return message


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
    message = evidence_pb2.Decision(
        number=number,
        bullet_id=decision.bullet_id,
        text_version=decision.text_version,
        before=STATES[decision.before],
        after=STATES[decision.after],
        effect=encode_effect(decision.statistics, 1.0 - policy.bullet_holdout),
    )
    message.time.FromDatetime(decision.time)
    return message


def _encode_arm(sessions: float, total: float) -> evidence_pb2.ArmSummary:
    return evidence_pb2.ArmSummary(sessions=round(sessions), success_rate=total / sessions if sessions else 0.0)
