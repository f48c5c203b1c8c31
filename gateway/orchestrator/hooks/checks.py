"""The decision about a tool call before an agent makes it."""

from __future__ import annotations

from dataclasses import dataclass

from chassis.targets.guard import CallDecision


@dataclass(frozen=True, slots=True)
class HookVerdict:
    """The decision about a call, and the text of the lessons behind it."""

    decision: CallDecision = CallDecision.ALLOW
    text: str = ""
