"""Check the tool calls of a session before they are made: most checks are decided here, without a call to the server.

A call that no target matches is allowed at once. For a call that one matches, the server decides, because it withholds
some advice at random and stores the firing; while it is unavailable, the local decision counts.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, cast

from chassis.targets.errors import InvalidTarget
from chassis.targets.guard import CallDecision, CallGuard, GuardIndex, GuardMatches, GuardMode, find_matches
from chassis.targets.session import (
    MAX_MESSAGE_CHARS,
    SessionHistory,
    ToolCallRequest,
    encode_arguments,
    shorten_result,
)
from chassis.targets.target import Target
from hansei.client.calls import AsyncMode, BlockingMode, M
from hansei.client.errors import Unavailable
from hansei.client.outages import AWAY, warn
from hansei.client.pages import join_pages, join_pages_async
from hansei.client.services.evidence import GuardServiceClient
from hansei.evidence.v1 import guard_service_pb2 as pb

Decision = Literal["allow", "advise", "ask", "deny"]
REFRESH_SECONDS = 30.0
"""The age at which the guards of a dataset are read again."""
MAX_REPORTED_MESSAGES = 100
"""Messages of one report that the contract allows; more are reported in parts."""
MAX_WAITING_REPORTS = 100
"""Reports that wait for the end of an outage; of more, the oldest are dropped."""
_PAGE_SIZE = 1_000
_GUARDS_NOT_READ = "reading the guards failed"
_NOT_CHECKED = "hansei is unavailable; the guard decides without the server"
_CALL_NOT_REPORTED = "call of a guarded session could not be reported yet"
_OUTCOME_NOT_REPORTED = "outcome of a guarded session was not reported"


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """The decision about a call: make it, make it with the texts as advice, ask a person, or refuse it."""

    decision: Decision = "allow"
    texts: tuple[str, ...] = ()
    bullet_ids: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the lessons for the agent, one a line."""
        return "\n".join(self.texts)


_ALLOWED = CallVerdict()


class _LocalGuard(Generic[M]):
    """The common parts of both session guards: compiled guards, the session, and events to report."""

    def __init__(
        self,
        service: GuardServiceClient[M],
        dataset: str,
        session_id: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self.dataset = dataset
        self.session_id = session_id
        self.unchecked = 0
        """Calls that were allowed unchecked, because the guards could not be read."""
        self._clock = clock
        self._lock = threading.RLock()
        self._history = SessionHistory()
        self._messages: list[pb.SessionMessage] = []
        self._reports: deque[dict[str, Any]] = deque(maxlen=MAX_WAITING_REPORTS)
        self._events = 0
        self._compiled: dict[tuple[str, str, int, str], CallGuard] = {}
        self._index = GuardIndex()
        self._has_guards = False
        self._read_at = float("-inf")

    def add_message(self, text: str, *, is_instruction: bool = False) -> None:
        """Add a message of the user, or one of the instructions, that the agent read."""
        with self._lock:
            self._history.add_message(text, is_user=not is_instruction)
            self._messages.append(pb.SessionMessage(text=text[:MAX_MESSAGE_CHARS], is_instruction=is_instruction))

    def _needs_guards(self) -> bool:
        return self._clock() - self._read_at >= REFRESH_SECONDS

    def _set_guards(self, guards: Iterable[pb.Guard]) -> None:
        compiled: dict[tuple[str, str, int, str], CallGuard] = {}
        for guard in guards:
            key = (guard.bullet_id, guard.target.expression, guard.target.mode, guard.text)
            found = self._compiled.get(key) or _compile(guard)
            if found is not None:
                compiled[key] = found
        with self._lock:
            self._compiled, self._index, self._has_guards = compiled, GuardIndex(compiled.values()), True

    @property
    def _session_fields(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "session_id": self.session_id}

    @contextmanager
    def _warn_of_outage(self, event: str) -> Iterator[None]:
        """Suppress an error of an outage, and log it."""
        try:
            yield
        except AWAY as error:
            warn(event, dataset=self.dataset, error=error)

    def _match(self, tool: str, arguments: Mapping[str, Any] | None) -> tuple[ToolCallRequest, GuardMatches]:
        call = ToolCallRequest(tool, dict(arguments or {}))
        with self._lock:
            if not self._has_guards:
                self.unchecked += 1
            return call, find_matches(self._index, call, self._history)

    def _take_report(self) -> dict[str, Any] | None:
        """Return the next report, or None: messages and calls in their order, those of an outage first."""
        with self._lock:
            if not self._reports:
                self._queue_reports()
            return self._reports.popleft() if self._reports else None

    def _return_report(self, report: dict[str, Any]) -> None:
        """Let a report that did not reach the server be the next one again; by its id it takes effect once."""
        with self._lock:
            if len(self._reports) < MAX_WAITING_REPORTS:
                self._reports.appendleft(report)

    def _queue_reports(self, **call: Any) -> None:
        """Queue the reports of the messages since the last ones; the last of them also has the fields of a call."""
        messages, self._messages = self._messages, []
        starts = range(0, len(messages), MAX_REPORTED_MESSAGES)
        parts: list[dict[str, Any]] = [
            {"messages": messages[start : start + MAX_REPORTED_MESSAGES]} for start in starts
        ]
        if call:
            *earlier, last = parts or [{}]
            parts = [*earlier, {**last, **call}]
        self._reports.extend({**self._session_fields, "request_id": str(uuid.uuid4()), **part} for part in parts)

    def _build_check(self, call: ToolCallRequest) -> dict[str, Any]:
        return {**self._session_fields, "call": _encode_call(call), "min_events": self._events}

    def _add_call(self, tool: str, arguments: Mapping[str, Any] | None, result: Any, failed: bool) -> None:
        """Add a call to the session, and queue its report."""
        call = ToolCallRequest(tool, dict(arguments or {}))
        with self._lock:
            self._history.add_call(call, result, is_success=not failed)
            self._queue_reports(call=_encode_call(call), result=shorten_result(result), failed=failed)


class SessionGuard(_LocalGuard[BlockingMode]):
    """The guard of one session, from `Client.guard`."""

    def check(self, tool: str, arguments: Mapping[str, Any] | None = None) -> CallVerdict:
        """Return the verdict about a call. While hansei is unavailable, every call is allowed."""
        if self._needs_guards():
            self.refresh()
        call, matches = self._match(tool, arguments)
        if not matches.matches:
            return _ALLOWED
        with self._warn_of_outage(_NOT_CHECKED):
            self._send_reports()
            return _read_verdict(self._service.check_call(**self._build_check(call)))
        return _decide(matches)

    def report(self, tool: str, arguments: Mapping[str, Any] | None, result: Any, *, failed: bool = False) -> None:
        """Add a call that was made, with its result, for the checks of later calls."""
        self._add_call(tool, arguments, result, failed)
        with self._warn_of_outage(_CALL_NOT_REPORTED):
            self._send_reports()

    def report_outcome(self, succeeded: bool) -> None:
        """Report how the task ended, by more than the agent's own word: modes of guards follow from it. Once counts."""
        with self._warn_of_outage(_OUTCOME_NOT_REPORTED):
            self._service.report_session(**self._session_fields, succeeded=succeeded)

    def refresh(self) -> None:
        """Read the guards of the dataset now."""
        with self._warn_of_outage(_GUARDS_NOT_READ):
            read = join_pages(self._service.list_all, dataset=self.dataset, page_size=_PAGE_SIZE)
            self._set_guards(read.guards)
        self._read_at = self._clock()

    def _send_reports(self) -> None:
        """Send the reports that wait."""
        while (report := self._take_report()) is not None:
            try:
                self._events = self._service.report_call(**report).events
            except Unavailable:
                self._return_report(report)
                raise


class AsyncSessionGuard(_LocalGuard[AsyncMode]):
    """The guard of one session, from `AsyncClient.guard`."""

    async def check(self, tool: str, arguments: Mapping[str, Any] | None = None) -> CallVerdict:
        """Return the verdict about a call; see `SessionGuard.check`."""
        if self._needs_guards():
            await self.refresh()
        call, matches = self._match(tool, arguments)
        if not matches.matches:
            return _ALLOWED
        with self._warn_of_outage(_NOT_CHECKED):
            await self._send_reports()
            return _read_verdict(await self._service.check_call(**self._build_check(call)))
        return _decide(matches)

    async def report(
        self, tool: str, arguments: Mapping[str, Any] | None, result: Any, *, failed: bool = False
    ) -> None:
        """Add a call that was made, with its result; see `SessionGuard.report`."""
        self._add_call(tool, arguments, result, failed)
        with self._warn_of_outage(_CALL_NOT_REPORTED):
            await self._send_reports()

    async def report_outcome(self, succeeded: bool) -> None:
        """Report how the task ended; see `SessionGuard.report_outcome`."""
        with self._warn_of_outage(_OUTCOME_NOT_REPORTED):
            await self._service.report_session(**self._session_fields, succeeded=succeeded)

    async def refresh(self) -> None:
        """Read the guards of the dataset now."""
        with self._warn_of_outage(_GUARDS_NOT_READ):
            read = await join_pages_async(self._service.list_all, dataset=self.dataset, page_size=_PAGE_SIZE)
            self._set_guards(read.guards)
        self._read_at = self._clock()

    async def _send_reports(self) -> None:
        """Send the reports that wait."""
        while (report := self._take_report()) is not None:
            try:
                self._events = (await self._service.report_call(**report)).events
            except Unavailable:
                self._return_report(report)
                raise


def _compile(guard: pb.Guard) -> CallGuard | None:
    try:
        target = Target(guard.target.expression)
    except InvalidTarget as error:  # A server of another version may know another vocabulary.
        warn("target does not compile; it guards nothing", bullet=guard.bullet_id, rule=error.rule)
        return None
    return CallGuard(guard.bullet_id, target, GuardMode(guard.target.mode), guard.text)


def _encode_call(call: ToolCallRequest) -> pb.GuardedCall:
    return pb.GuardedCall(tool=call.tool, arguments=encode_arguments(call.args))


def _read_verdict(response: pb.CheckCallResponse) -> CallVerdict:
    return _build_verdict(CallDecision(response.decision), [match for match in response.matches if match.text])


def _decide(matches: GuardMatches) -> CallVerdict:
    """Return the local decision: that of the strictest guard."""
    active = [guard for guard in matches.matches if guard.mode > GuardMode.SHADOW]
    strictest = max((guard.mode for guard in active), default=CallDecision.ALLOW)
    return _build_verdict(CallDecision(strictest), active)


def _build_verdict(decision: CallDecision, lessons: Sequence[pb.GuardMatch | CallGuard]) -> CallVerdict:
    name = cast("Decision", decision.name.lower())
    return CallVerdict(name, tuple(lesson.text for lesson in lessons), tuple(lesson.bullet_id for lesson in lessons))
