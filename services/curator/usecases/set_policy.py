"""SetPolicy: replace the policy of a dataset and enforce it at once."""

from __future__ import annotations

import math
from datetime import timedelta

from chassis.errors import Violation
from services.curator.domain.errors import InvalidPolicy
from services.curator.domain.log import Origin, RevisionKind
from services.curator.domain.policy import Policy
from services.curator.domain.upkeep import merge_duplicates
from services.curator.usecases.commit import UPKEEP_AUTHOR, enforce_policy
from services.curator.usecases.ports import DatasetTransaction

# Below this threshold different lessons would be merged.
LOWEST_THRESHOLD = 0.5
LONGEST_LIFETIME = timedelta(days=3650)


def validate_policy(policy: Policy) -> Policy:
    """Return `policy`. Raises InvalidPolicy for a value out of its range."""
    threshold = policy.duplicate_threshold
    if threshold is not None and not (math.isfinite(threshold) and LOWEST_THRESHOLD <= threshold <= 1):
        raise _build_invalid("duplicate_threshold", f"{threshold} is outside {LOWEST_THRESHOLD}..1")
    if not timedelta(0) < policy.pending_lifetime <= LONGEST_LIFETIME:
        raise _build_invalid("pending_lifetime", f"must be positive and at most {LONGEST_LIFETIME.days} days")
    return policy


def _build_invalid(field: str, problem: str) -> InvalidPolicy:
    message = f"policy.{field} {problem}"
    return InvalidPolicy(message, violations=[Violation(f"policy.{field}", message)])


def set_policy(dataset: DatasetTransaction, policy: Policy) -> Policy:
    """Replace the policy; merge duplicates, retire and evict bullets accordingly."""
    dataset.set_policy(validate_policy(policy))
    if policy.duplicate_threshold is not None:
        draft = dataset.create_draft()
        merged = merge_duplicates(draft, policy.duplicate_threshold, dataset.list_ballots_on)
        if merged:
            reason = f"merged duplicates: {len(merged)}"
            dataset.append(draft, Origin(RevisionKind.UPKEEP, UPKEEP_AUTHOR, reason), reason)
    enforce_policy(dataset, policy, list(dataset.list_bullets()) if policy.retire_after_harmful else [])
    return policy
