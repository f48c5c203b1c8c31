"""Session guards decide locally, ask the server about matches only, and allow every call while it is unavailable."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from hansei.client.errors import Internal, Unavailable
from hansei.client.guards import MAX_REPORTED_MESSAGES, REFRESH_SECONDS, AsyncSessionGuard, SessionGuard
from hansei.client.langchain_guard import build_guard_hook
from hansei.evidence.v1 import guard_service_pb2 as pb
from hansei.playbook.v1 import playbook_pb2

COMMIT = "call.tool == 'git_commit' && !succeeded('git_config')"
LESSON = "Set user.name first."


class RecordingService:
    """A guard service with one guard, which records its calls."""

    def __init__(self, decision: pb.GuardDecision.ValueType = pb.GUARD_DECISION_DENY) -> None:
        self.decision = decision
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.request_ids: list[str] = []
        self.error: Exception | None = None
        self.mode: Any = playbook_pb2.TARGET_MODE_DENY

    def list_all(self, **fields: Any) -> pb.ListGuardsResponse:
        self._record("list", fields)
        target = playbook_pb2.Target(expression=COMMIT, mode=self.mode)
        broken = playbook_pb2.Target(expression="called(", mode=playbook_pb2.TARGET_MODE_DENY)
        return pb.ListGuardsResponse(
            guards=[
                pb.Guard(bullet_id="a", target=target, text=LESSON),
                pb.Guard(bullet_id="b", target=broken, text="broken"),
            ]
        )

    def check_call(self, **fields: Any) -> pb.CheckCallResponse:
        self._record("check", fields)
        return pb.CheckCallResponse(decision=self.decision, matches=[pb.GuardMatch(bullet_id="a", text=LESSON)])

    def report_call(self, *, request_id: str, **fields: Any) -> pb.ReportCallResponse:
        self.request_ids.append(request_id)
        self._record("report", fields)
        return pb.ReportCallResponse()

    def report_session(self, **fields: Any) -> None:
        self._record("outcome", fields)

    def _record(self, method: str, fields: dict[str, Any]) -> None:
        if self.error:
            raise self.error
        self.calls.append((method, fields))

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.calls]


@pytest.fixture
def service() -> RecordingService:
    return RecordingService()


def build_guard(service: Any, clock: Any = lambda: 0.0) -> SessionGuard:
    return SessionGuard(service, "d", "s", clock)


def test_only_a_matching_call_is_checked_by_the_server(service: RecordingService) -> None:
    guard = build_guard(service)
    guard.add_message("Please commit.")
    assert guard.check("git_push").decision == "allow"
    assert service.methods == ["list"]
    verdict = guard.check("git_commit", {"message": "x"})
    assert (verdict.decision, verdict.text, verdict.bullet_ids) == ("deny", LESSON, ("a",))
    assert service.methods == ["list", "report", "check"]  # the message was reported before the check
    guard.report("git_config", {}, "ok")
    assert guard.check("git_commit").decision == "allow"


def test_guards_are_refreshed_after_their_interval(service: RecordingService) -> None:
    now = [0.0]
    guard = build_guard(service, lambda: now[0])
    guard.check("git_push")
    guard.check("git_push")
    now[0] = REFRESH_SECONDS
    guard.check("git_push")
    assert service.methods == ["list", "list"]


def test_without_the_server_calls_are_allowed_and_counted(service: RecordingService) -> None:
    service.error = Unavailable("away")
    guard = build_guard(service)
    assert guard.check("git_commit").decision == "allow"
    guard.report("git_commit", {}, "ok")
    assert guard.unchecked == 1


def test_a_match_is_decided_locally_while_the_server_is_away(service: RecordingService) -> None:
    guard = build_guard(service)
    guard.refresh()
    service.error = Unavailable("away")
    assert guard.check("git_commit").decision == "deny"


def test_a_guard_with_a_mode_of_a_later_version_stops_no_call_by_itself(service: RecordingService) -> None:
    service.mode = 99
    guard = build_guard(service)
    assert guard.check("git_commit").decision == "deny"  # the server, which knows the mode, decides
    service.error = Unavailable("away")
    assert guard.check("git_commit").decision == "allow"


class AsyncService:
    """A recording service whose methods are coroutine functions."""

    def __init__(self, service: RecordingService) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        async def call(**fields: Any) -> Any:
            return getattr(self._service, name)(**fields)

        return call


async def test_many_messages_are_reported_in_parts(service: RecordingService) -> None:
    other = RecordingService()
    blocking, asynchronous = build_guard(service), AsyncSessionGuard(AsyncService(other), "d", "s", lambda: 0.0)  # type: ignore[arg-type]
    for guard in (blocking, asynchronous):
        for number in range(MAX_REPORTED_MESSAGES + 1):
            guard.add_message(f"message {number}")
    blocking.report("git_push", {}, "done")
    await asynchronous.report("git_push", {}, "done")
    assert other.calls == service.calls
    reports = [fields for method, fields in service.calls if method == "report"]
    assert [len(fields["messages"]) for fields in reports] == [MAX_REPORTED_MESSAGES, 1]
    assert ["call" in fields for fields in reports] == [False, True]


async def test_both_guards_make_the_same_calls_and_decisions_also_in_an_outage(service: RecordingService) -> None:
    other = RecordingService()
    blocking, asynchronous = build_guard(service), AsyncSessionGuard(AsyncService(other), "d", "s", lambda: 0.0)  # type: ignore[arg-type]
    for guard in (blocking, asynchronous):
        guard.add_message("Please commit.")
    assert await asynchronous.check("git_commit") == blocking.check("git_commit")
    for guard in (blocking, asynchronous):
        guard.add_message("Now.")
    blocking.report("git_push", {"force": True}, {"done": 1}, failed=True)
    await asynchronous.report("git_push", {"force": True}, {"done": 1}, failed=True)
    blocking.report_outcome(True)
    await asynchronous.report_outcome(True)
    assert service.methods == ["list", "report", "check", "report", "outcome"]
    assert other.calls == service.calls
    service.error = other.error = Unavailable("away")
    assert await asynchronous.check("git_commit") == blocking.check("git_commit")
    await asynchronous.report_outcome(True)
    assert blocking.check("git_commit").decision == "deny"


@pytest.mark.parametrize("is_async", [False, True])
async def test_messages_and_calls_of_an_outage_are_reported_after_it_once_and_in_order(
    service: RecordingService, is_async: bool
) -> None:
    blocking = build_guard(service)
    asynchronous = AsyncSessionGuard(AsyncService(service), "d", "s", lambda: 0.0)  # type: ignore[arg-type]
    guard = asynchronous if is_async else blocking

    async def call(result: Any) -> Any:
        return await result if is_async else result

    await call(guard.refresh())
    service.error = Unavailable("away")
    guard.add_message("Please commit.")
    await call(guard.report("git_push", {}, "done"))
    guard.add_message("Now.")
    assert (await call(guard.check("git_commit"))).decision == "deny"
    service.error = None
    assert (await call(guard.check("git_commit"))).decision == "deny"
    assert service.methods == ["list", "report", "report", "check"]
    texts = [[message.text for message in fields["messages"]] for method, fields in service.calls if method == "report"]
    assert texts == [["Please commit."], ["Now."]]
    first, *repeated = service.request_ids
    assert repeated.count(first) == 2, "the repeated report has the id of the first"
    assert len(set(service.request_ids)) == 2


def test_a_report_that_the_server_refuses_is_not_sent_again(service: RecordingService) -> None:
    guard = build_guard(service)
    guard.refresh()
    service.error = Internal("a bug")
    guard.report("git_push", {}, "done")
    service.error = None
    guard.check("git_commit")
    assert service.methods == ["list", "check"]


def _request(tool: str = "git_commit") -> Any:
    return SimpleNamespace(tool_call={"name": tool, "args": {}, "id": "1"})


def test_the_hook_refuses_and_reports(service: RecordingService) -> None:
    hook = build_guard_hook(build_guard(service))
    made: list[Any] = []

    def handler(request: Any) -> ToolMessage:
        made.append(request)
        return ToolMessage(content="ok", tool_call_id="1")

    refused = hook(_request(), handler)
    assert LESSON in refused.content
    assert (refused.status, refused.tool_call_id, made) == ("error", "1", [])
    hook(_request("git_config"), handler)
    assert hook(_request(), handler).content == "ok"
    assert service.methods == ["list", "check", "report", "report"]

    def failing(request: Any) -> ToolMessage:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        hook(_request("git_push"), failing)
    assert service.calls[-1][1]["failed"]


def test_the_hook_puts_advice_before_the_call_once() -> None:
    hook = build_guard_hook(build_guard(RecordingService(pb.GUARD_DECISION_ADVISE)))
    responses = [hook(_request(), lambda request: ToolMessage(content="ok", tool_call_id="1")) for _ in range(2)]
    assert LESSON in responses[0].content
    assert responses[1].content == "ok"


def test_a_person_may_approve_a_call() -> None:
    service = RecordingService(pb.GUARD_DECISION_ASK)
    hook = build_guard_hook(build_guard(service), lambda verdict, call: verdict.text == LESSON)
    assert hook(_request(), lambda request: ToolMessage(content="ok", tool_call_id="1")).content == "ok"
    refused = build_guard_hook(build_guard(service))(_request(), lambda request: None)
    assert refused.status == "error"
