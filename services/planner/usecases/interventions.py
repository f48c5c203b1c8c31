"""Answer the questions of the executor: by callbacks, by default, or later (P-81 to P-86)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from datetime import datetime

from chassis.logging import get_logger
from services.planner.domain.answers import InterventionPolicy, interpret_response, interpret_timeout
from services.planner.domain.events import InterventionAnswered
from services.planner.domain.execution import ExecutionState
from services.planner.domain.interventions import (
    HistoryEntry,
    InterventionRequest,
    InterventionResponse,
    build_history_entry,
    choose_default,
    parse_answer,
)
from services.planner.domain.plans import utc_now
from services.planner.domain.replanning import ReplanManager
from services.planner.domain.thresholds import InterventionLevel

_log = get_logger(__name__)

CallbackAnswer = InterventionResponse | str
OnNotify = Callable[[str], Awaitable[None] | None]
OnAsk = Callable[[InterventionRequest], Awaitable[CallbackAnswer] | CallbackAnswer]


class InterventionChannel:
    """The way in which people are notified and asked. This one pauses at every question, which a later call answers."""

    async def notify(self, message: str) -> None:
        """Notify people, in addition to the log. Raises nothing."""

    async def answer(
        self, state: ExecutionState, request: InterventionRequest, now: datetime
    ) -> InterventionAnswered | None:
        """Return the answer; None if it comes later and the execution pauses."""
        return None


class InterventionHandler(InterventionChannel):
    """Asks through callbacks (P-81 to P-85, P-87). Without a callback the default response applies."""

    def __init__(
        self,
        on_notify: OnNotify | None = None,
        on_confirm: OnAsk | None = None,
        on_escalate: OnAsk | None = None,
        policy: InterventionPolicy | None = None,
        replans: ReplanManager | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._on_notify = on_notify
        self._callbacks = {InterventionLevel.CONFIRM: on_confirm, InterventionLevel.ESCALATE: on_escalate}
        self._policy = policy or InterventionPolicy()
        self._replans = replans or ReplanManager()
        self._clock = clock
        self.history: list[HistoryEntry] = []

    async def notify(self, message: str) -> None:
        """Call `on_notify`; a missing or failing callback changes nothing (P-81)."""
        if self._on_notify is None:
            return
        try:
            pending = self._on_notify(message)
            if pending is not None:
                await pending
        except Exception:  # P-81
            _log.warning("the callback on_notify failed", exc_info=True)

    async def handle(self, request: InterventionRequest) -> InterventionResponse:
        """Return the response to a request of any level; SILENT and NOTIFY proceed at once."""
        if request.level.requires_answer:
            response = await self._call_back(request)
        else:
            if request.level is InterventionLevel.NOTIFY:
                await self.notify(request.message)
            response = parse_answer("proceed")
        outcome = (response.action, response.timeout_reached)
        self.history.append(build_history_entry(self._clock(), request.level, request.message, *outcome))
        return response

    async def _call_back(self, request: InterventionRequest) -> InterventionResponse:
        callback = self._callbacks[request.level]
        if callback is None:
            return choose_default(self._policy.auto_proceed_on_timeout)
        try:
            reply = callback(request)
            if inspect.isawaitable(reply):
                reply = await asyncio.wait_for(reply, request.timeout_seconds)
        except TimeoutError:
            return choose_default(self._policy.auto_proceed_on_timeout)
        return parse_answer(reply) if isinstance(reply, str) else reply

    async def answer(
        self, state: ExecutionState, request: InterventionRequest, now: datetime
    ) -> InterventionAnswered | None:
        """Return the answer of the callback, or the default answer."""
        response = await self.handle(request)
        if response.timeout_reached:
            return interpret_timeout(state, request, self._policy, self._replans, now)
        return interpret_response(state, request, response, self._policy)
