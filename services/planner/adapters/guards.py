"""Guards of tool calls, asked of the evidence service. While it is unavailable, calls are made unchecked."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cachetools import LRUCache

from chassis.channels import Peers
from chassis.errors import HanseiError, InvalidArgument, RequestIdReused, shorten
from chassis.logging import get_logger
from chassis.targets.guard import CallDecision
from chassis.targets.session import MAX_MESSAGE_CHARS, encode_arguments
from hansei.evidence.v1 import guard_service_pb2 as pb
from hansei.evidence.v1 import guard_service_pb2_grpc
from services.planner.domain.results import ToolResult
from services.planner.usecases.ports import LessonVerdict, PlannedCall

PAUSE_SECONDS = 5.0
"""The time after a failed check during which calls are made unchecked, so that an outage delays one call, not each."""
UNCHECKED = "unchecked"
_EXECUTIONS = 200
_PENDING_REPORTS = 20
_MAX_RESULT_CHARS = 100_000
"""Less than the contract allows: pending reports are in memory."""

_log = get_logger(__name__)


@dataclass(slots=True)
class _GuardedExecution:
    """The texts and calls of an execution that are not reported yet; the oldest are dropped when there are too many."""

    pending: deque[pb.ReportCallRequest] = field(default_factory=lambda: deque(maxlen=_PENDING_REPORTS))
    names: set[str] = field(default_factory=set)
    has_playbook: bool | None = None
    """None: not known, because no check has succeeded yet."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class EvidenceCallChecks:
    """Checks calls by the guards of one dataset, for each execution as a session of its own.

    Nothing is reported while the dataset has no playbook. No check or report takes longer than `seconds`.
    """

    def __init__(
        self,
        peers: Peers,
        dataset: str,
        seconds: float,
        count: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._peers = peers
        self._dataset = dataset
        self._seconds = seconds
        self._count = count
        self._clock = clock
        self._available_at = float("-inf")
        self._executions: LRUCache[str, _GuardedExecution] = LRUCache(_EXECUTIONS)

    @property
    def is_paused(self) -> bool:
        """Return whether calls are made unchecked for now, because a check or a report failed."""
        return self._clock() < self._available_at

    async def check(self, call: PlannedCall) -> LessonVerdict:
        """Return the decision about a call. Raises nothing."""
        execution = self._executions.setdefault(call.execution_id, _GuardedExecution())
        self._add_texts(execution, call)
        verdict: LessonVerdict | None = None
        if not self.is_paused:
            try:
                async with asyncio.timeout(self._seconds):
                    verdict = await self._check(execution, call)
            except (HanseiError, TimeoutError) as error:
                self._note_failure("tool call was not checked; it is made all the same", error)
        self._count(UNCHECKED if verdict is None else verdict.decision.name.lower())
        return verdict or LessonVerdict()

    async def report(self, call: PlannedCall, result: ToolResult) -> None:
        """Add a call to its session. Raises nothing; what cannot be reported now precedes the next check."""
        execution = self._executions.setdefault(call.execution_id, _GuardedExecution())
        if execution.has_playbook is False:
            return
        execution.pending.append(
            pb.ReportCallRequest(
                request_id=_make_request_id(call.key),
                dataset=call.prefix + self._dataset,
                session_id=call.execution_id,
                call=_encode_call(call),
                result=_format_result(result)[:_MAX_RESULT_CHARS],
                failed=not result.success,
            )
        )
        if execution.has_playbook and not self.is_paused:
            try:
                async with asyncio.timeout(self._seconds):
                    await self._send_pending(execution)
            except (HanseiError, TimeoutError) as error:
                self._note_failure("tool call was not reported to its guards", error)

    async def _check(self, execution: _GuardedExecution, call: PlannedCall) -> LessonVerdict | None:
        if execution.has_playbook:
            await self._send_pending(execution)
        request = pb.CheckCallRequest(
            dataset=call.prefix + self._dataset, session_id=call.execution_id, call=_encode_call(call)
        )
        response = await self._stub.CheckCall(request)
        if not execution.has_playbook and response.revision:
            execution.has_playbook = True
            await self._send_pending(execution)
            response = await self._stub.CheckCall(request)
        if response.note:
            _log.info("tool call was not checked by all guards", reason=response.note)
            return None
        if not response.revision:
            execution.has_playbook = False
            execution.pending.clear()
        lessons = tuple(match.text for match in response.matches if match.text)
        return LessonVerdict(CallDecision(response.decision), lessons)

    async def _send_pending(self, execution: _GuardedExecution) -> None:
        async with execution.lock:  # Reports keep the order of the calls.
            while execution.pending:
                report = execution.pending[0]
                try:
                    await self._stub.ReportCall(report)
                except (InvalidArgument, RequestIdReused) as error:  # Sending it again would fail in the same way.
                    _log.warning("a report was refused by the guards; it is dropped", error=shorten(str(error)))
                if execution.pending and execution.pending[0] is report:  # It may have been dropped meanwhile.
                    execution.pending.popleft()

    def _add_texts(self, execution: _GuardedExecution, call: PlannedCall) -> None:
        for name, text in call.texts:
            if name not in execution.names and text:
                execution.names.add(name)
                execution.pending.append(
                    pb.ReportCallRequest(
                        request_id=_make_request_id(f"{call.execution_id}:{name}"),
                        dataset=call.prefix + self._dataset,
                        session_id=call.execution_id,
                        messages=[pb.SessionMessage(text=text[:MAX_MESSAGE_CHARS])],
                    )
                )

    def _note_failure(self, message: str, error: Exception) -> None:
        _log.warning(message, error=shorten(str(error) or type(error).__name__))
        if not isinstance(error, InvalidArgument):
            self._available_at = self._clock() + PAUSE_SECONDS

    @property
    def _stub(self) -> Any:
        return guard_service_pb2_grpc.GuardServiceStub(self._peers.get_channel("evidence"))


def _make_request_id(name: str) -> str:
    """Return the same id for the same report, so that a repeat after a crash adds nothing."""
    return str(uuid5(NAMESPACE_URL, f"hansei:planner:{name}"))


def _encode_call(call: PlannedCall) -> pb.GuardedCall:
    return pb.GuardedCall(tool=call.request.tool, arguments=encode_arguments(call.request.args))


def _format_result(result: ToolResult) -> str:
    if result.hits:
        return json.dumps([hit.model_dump() for hit in result.hits], ensure_ascii=False)
    if isinstance(result.output, dict):
        return json.dumps(result.output, ensure_ascii=False, default=str)
    return result.text or result.error or ""
