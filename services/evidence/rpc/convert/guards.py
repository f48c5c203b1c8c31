"""Convert between the messages of guards and the domain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chassis.server.messages import encode
from chassis.targets.guard import CallGuard, GuardMode
from chassis.targets.session import ToolCallRequest
from hansei.evidence.v1 import guard_service_pb2 as pb
from hansei.playbook.v1 import playbook_pb2
from libs.guards.backtest import Backtest
from libs.guards.exact_tests import find_upper_bound
from libs.guards.guard_trajectory import GuardTrajectory, TrajectoryCall, TrajectoryMessage
from services.evidence.domain.guard_sessions import (
    DecidedMatch,
    SessionCall,
    SessionEvent,
    SessionText,
    parse_arguments,
)
from services.evidence.domain.guard_trials import GuardTrial
from services.evidence.usecases.backtest_archive import BacktestPage
from services.evidence.usecases.check_call import CheckedCall
from services.evidence.usecases.guard_ports import FiringCounts
from services.evidence.usecases.guard_trial_ports import NumberedDecision

_COUNTS = (
    "failed_trajectories",
    "failed_with_firing",
    "passed_trajectories",
    "passed_with_firing",
    "skipped_trajectories",
    "false_alarms",
)
"""The counts of a backtest, in the order in which page tokens have them."""


def decode_call(message: pb.GuardedCall, field: str = "call") -> ToolCallRequest:
    """Return the call of a message. Raises InvalidCallArguments."""
    return ToolCallRequest(message.tool, parse_arguments(message.arguments, f"{field}.arguments"))


def decode_events(request: pb.ReportCallRequest) -> list[SessionEvent]:
    """Return the events of a report: the messages, then the call. Raises InvalidCallArguments."""
    events: list[SessionEvent] = [SessionText(message.text, message.is_instruction) for message in request.messages]
    if request.HasField("call"):
        events.append(SessionCall(decode_call(request.call), request.result, request.failed))
    return events


def decode_guard_trajectory(message: pb.GuardTrajectory, field: str) -> GuardTrajectory:
    """Return a recorded trajectory; the step of a call is its number. Raises InvalidCallArguments."""
    events: list[TrajectoryMessage | TrajectoryCall] = []
    for number, recorded in enumerate(message.calls):
        events.extend(
            TrajectoryMessage(number, "system" if text.is_instruction else "user", text.text)
            for text in recorded.messages
        )
        call = decode_call(recorded.call, f"{field}.calls[{number}].call")
        error = recorded.result or "failed" if recorded.failed else ""
        events.append(TrajectoryCall(number, call, recorded.result, error))
    return GuardTrajectory(message.id, message.id, message.succeeded, tuple(events))


def encode_checked_call(checked: CheckedCall) -> pb.CheckCallResponse:
    """Return the message of a decision."""
    return pb.CheckCallResponse(
        decision=pb.GuardDecision.Value(f"GUARD_DECISION_{checked.decision.name}"),
        matches=[_encode_match(match) for match in checked.matches],
        revision=checked.revision,
        note=checked.note,
    )


def _encode_match(match: DecidedMatch) -> pb.GuardMatch:
    is_shown = not match.is_withheld and match.guard.mode > GuardMode.SHADOW
    return pb.GuardMatch(
        bullet_id=match.guard.bullet_id,
        mode=encode_mode(match.guard.mode),
        text=match.guard.text if is_shown else "",
        is_withheld=match.is_withheld,
    )


def encode_mode(mode: GuardMode) -> playbook_pb2.TargetMode.ValueType:
    """Return the mode of the contract."""
    return playbook_pb2.TargetMode.Value(f"TARGET_MODE_{mode.name}")


def encode_guard(
    guard: CallGuard,
    counts: FiringCounts,
    *,
    requested_mode: GuardMode,
    is_pinned: bool,
    evidence: pb.GuardEvidence | None,
) -> pb.Guard:
    """Return the message of a guard with its firings."""
    target = playbook_pb2.Target(expression=guard.target.source, mode=encode_mode(guard.mode), pinned=is_pinned)
    return pb.Guard(
        bullet_id=guard.bullet_id,
        target=target,
        text=guard.text,
        firings=counts.firings,
        withheld=counts.withheld,
        requested_mode=encode_mode(requested_mode),
        evidence=evidence,
        failures=guard.failures.count,
        suspended=guard.failures.is_suspended,
    )


def encode_evidence(trial: GuardTrial, passed: int) -> pb.GuardEvidence:
    """Return the message of the measurements of a guard; `passed` are the passing sessions of its dataset."""
    effect = trial.effect
    return pb.GuardEvidence(
        passed_sessions=passed - trial.passed_before,
        false_alarms=trial.alarms,
        mistakes=trial.hits,
        advised=int(effect.served),
        advised_mistakes=int(effect.served - effect.served_total),
        withheld=int(effect.withheld),
        withheld_mistakes=int(effect.withheld - effect.withheld_total),
    )


def encode_decision(numbered: NumberedDecision, revision: int | None = None) -> pb.GuardModeDecision:
    """Return the message of a decision, in the revision that is known of it."""
    number, decision = numbered
    return encode(
        decision,
        pb.GuardModeDecision,
        number=number,
        expression=decision.target,
        before=decision.before.name,
        after=decision.after.name,
        revision=decision.revision if revision is None else revision,
        undone=decision.is_undone,
    )


def encode_backtest(result: Backtest) -> pb.BacktestTargetResponse:
    """Return the message of a backtest."""
    return pb.BacktestTargetResponse(
        failed_trajectories=result.failed,
        failed_with_firing=result.failed_firing,
        passed_trajectories=result.passed,
        passed_with_firing=result.passed_firing,
        false_alarms=result.false_alarms,
        false_alarm_bound=result.false_alarm_bound,
        firings=[
            encode(firing, pb.GuardFiring, succeeded=firing.is_success, mistake_followed=firing.is_mistake)
            for firing in result.firings
        ],
    )


def list_counts(response: pb.BacktestTargetResponse) -> tuple[int, ...]:
    """Return the counts that the next page of a backtest continues."""
    return tuple(getattr(response, name) for name in _COUNTS)


def encode_backtest_page(page: BacktestPage, earlier: Sequence[int]) -> pb.BacktestTargetResponse:
    """Return the message of a page of a backtest; its counts are added to those of the pages before."""
    response = encode_backtest(page.backtest)
    response.skipped_trajectories = page.skipped
    for name, before in zip(_COUNTS, earlier, strict=True):
        setattr(response, name, getattr(response, name) + before)
    response.false_alarm_bound = find_upper_bound(response.false_alarms, response.passed_trajectories)
    return response


def decode_guard_trajectories(messages: Iterable[pb.GuardTrajectory]) -> Sequence[GuardTrajectory]:
    """Return the recorded trajectories of a request. Raises InvalidCallArguments."""
    return [decode_guard_trajectory(message, f"trajectories[{index}]") for index, message in enumerate(messages)]
