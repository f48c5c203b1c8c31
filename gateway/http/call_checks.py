"""The check of a tool call that a hook asks for."""

from __future__ import annotations

from typing import Protocol

from starlette.requests import Request

from gateway.orchestrator.hooks.checks import CallVerdict
from gateway.orchestrator.hooks.events import HookEvent


class CallCheck(Protocol):
    """Checks tool calls against the lessons of a dataset."""

    async def check(self, request: Request, dataset: str, event: HookEvent) -> CallVerdict:
        """Return the verdict on the call of an event, as far as the caller of `request` may see it.

        Raises HanseiError.
        """


class AllowEveryCall:
    """The check of a gateway whose contract has no guards."""

    async def check(self, request: Request, dataset: str, event: HookEvent) -> CallVerdict:
        """Allow the call."""
        return CallVerdict()
