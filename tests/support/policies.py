"""How tests call that want the first answer, also where another try, a second later, might help."""

from __future__ import annotations

from dataclasses import replace

from chassis.policy import Policies, installed_policies


def without_retries() -> Policies:
    """The policies of the contracts, for a client that tries each call once."""
    return {path: replace(policy, retry=False) for path, policy in installed_policies().items()}
