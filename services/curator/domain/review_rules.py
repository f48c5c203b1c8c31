"""Decide which proposals wait for a person under the policy of a dataset."""

from __future__ import annotations

from services.curator.domain.curation import Proposal
from services.curator.domain.planted_instructions import find_instruction
from services.curator.domain.policy import Policy, ReviewMode, Trust

WAITS_ON_REQUEST = "its request asks for a review"
WAITS_FOR_ALL = "every change of this dataset waits for review"
WAITS_AS_EDIT = "{type} waits for review in this dataset"
WAITS_FOR_TRUST = "the trust in its author is low"
WAITS_AS_INSTRUCTION = "its text reads like an instruction to the reader: {phrase}"


def find_wait_reason(policy: Policy, trust: Trust, proposal: Proposal) -> str:
    """Return the reason why the policy makes the proposal wait for review; empty if it does not."""
    if policy.review_mode is ReviewMode.AUTO:
        return ""
    if policy.review_mode is ReviewMode.REVIEW:
        return WAITS_FOR_ALL
    if trust is Trust.HIGH:
        return ""
    if trust is Trust.LOW:
        return WAITS_FOR_TRUST
    phrase = find_instruction(proposal.delta.content)
    if phrase:
        return WAITS_AS_INSTRUCTION.format(phrase=f'"{phrase}"')
    return "" if proposal.delta.type == "ADD" else WAITS_AS_EDIT.format(type=proposal.delta.type)
