"""SetPolicy: new rules for a dataset, which hold from now on and for what is there."""

from __future__ import annotations

import math
from datetime import timedelta

from chassis.errors import Violation
from services.curator.domain.errors import InvalidPolicy
from services.curator.domain.log import Kind, Origin
from services.curator.domain.rules import Policy
from services.curator.domain.upkeep import merge_duplicates
from services.curator.usecases.commit import UPKEEP_AUTHOR, keep_house
from services.curator.usecases.ports import DatasetTransaction

# A threshold so low would make one bullet of everything.
LOWEST_THRESHOLD = 0.5
LONGEST_LIFETIME = timedelta(days=3650)


def checked_policy(policy: Policy) -> Policy:
    """`policy` if its values make sense, else InvalidPolicy."""
    threshold = policy.duplicate_threshold
    if threshold is not None and not (math.isfinite(threshold) and LOWEST_THRESHOLD <= threshold <= 1):
        raise _invalid("duplicate_threshold", f"{threshold} is outside {LOWEST_THRESHOLD}..1")
    if not timedelta(0) < policy.pending_lifetime <= LONGEST_LIFETIME:
        raise _invalid("pending_lifetime", f"must be positive and at most {LONGEST_LIFETIME.days} days")
    return policy


def _invalid(field: str, problem: str) -> InvalidPolicy:
    message = f"policy.{field} {problem}"
    return InvalidPolicy(message, violations=[Violation(f"policy.{field}", message)])


def set_policy(dataset: DatasetTransaction, policy: Policy) -> Policy:
    """Replaces the rules; duplicates they make, out-voted bullets and what exceeds the budget go at once."""
    dataset.set_policy(checked_policy(policy))
    if policy.duplicate_threshold is not None:
        draft = dataset.draft()
        merged = merge_duplicates(draft, policy.duplicate_threshold, dataset.ballots_on)
        if merged:
            reason = f"merged duplicates: {len(merged)}"
            dataset.append(draft, Origin(Kind.UPKEEP, UPKEEP_AUTHOR, reason), reason)
    keep_house(dataset, policy, list(dataset.everything()) if policy.retire_after_harmful else [])
    return policy
