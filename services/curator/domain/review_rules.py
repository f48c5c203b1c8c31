"""Decide which proposals wait for a person under the policy of a dataset."""

from __future__ import annotations

import re

from services.curator.domain.curation import Proposal
from services.curator.domain.policy import Policy, ReviewMode, Trust

WAITS_ON_REQUEST = "its request asks for a review"
WAITS_FOR_ALL = "every change of this dataset waits for review"
WAITS_AS_EDIT = "{type} waits for review in this dataset"
WAITS_FOR_TRUST = "the trust in its author is low"
WAITS_AS_INSTRUCTION = "its text reads like an instruction to the reader: {phrase}"

# Phrases that instruct the reading model instead of stating a lesson. They only send a text to review, so a false alarm
# costs a look of a person; they are no defence by themselves.
_INSTRUCTIONS = re.compile(
    r"""
    \b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:previous|prior|above|earlier|all|your|system|other)\b
    | \b(?:system|developer)\s+(?:prompt|message|instructions?)\b
    | \byou\s+are\s+now\b | \bact\s+as\s+(?:an?|the)\b | \bpretend\s+(?:to|you)\b | \bjailbreak
    | \b(?:reveal|print|repeat|leak|exfiltrate)\b[^.\n]{0,40}
      \b(?:prompt|instructions?|secrets?|passwords?|api[\s_-]?keys?|tokens?)\b
    | \bdo\s+not\s+(?:tell|inform|mention)\b[^.\n]{0,40}\b(?:user|human|anyone)\b
    | <\s*/?\s*(?:system|assistant|user|instructions?)\s*> | \[/?INST\] | <\|[a-z_]+\|>
    | (?:これまで|以前|上記|前述|すべて|全て)の?(?:指示|命令|ルール|プロンプト)を?(?:無視|忘れ|破棄)
    | システムプロンプト | あなたは今から | (?:ユーザー|利用者)に(?:は)?(?:言わない|伝えない|知らせない)
    """,
    re.IGNORECASE | re.VERBOSE,
)


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


def find_instruction(text: str) -> str:
    """Return the first phrase of `text` that instructs the reading model, or "". The time is linear in the text."""
    found = _INSTRUCTIONS.search(text)
    return " ".join(found[0].split()) if found else ""
