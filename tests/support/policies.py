"""Call policies for tests that assert the first response of a call."""

from __future__ import annotations

from dataclasses import replace

from chassis.policy import Policies, load_policies


def without_retries() -> Policies:
    """Return the policies of the contracts without retries."""
    return {path: replace(policy, retry=False) for path, policy in load_policies().items()}
