"""The decision about a tool call before an agent makes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class CallDecision(IntEnum):
    """The reaction to a call; a higher one is stricter."""

    ALLOW = 1
    ADVISE = 2
    """Allow the call and give the agent the text."""
    ASK = 3
    """Let a person decide."""
    DENY = 4


@dataclass(frozen=True, slots=True)
class HookVerdict:
    """The decision about a call, and the text of the lessons behind it."""

    decision: CallDecision = CallDecision.ALLOW
    text: str = ""
