"""Guards change their mode only by evidence, one step at a time, and seldom wrongly."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from math import comb, exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chassis.json_texts import MAX_NESTING
from chassis.targets.guard import GuardMode
from chassis.targets.session import ToolCallRequest
from libs.guards.backtest import Backtest, Firing
from services.evidence.domain.errors import InvalidCallArguments
from services.evidence.domain.false_alarms import compute_evidence_above, compute_evidence_below
from services.evidence.domain.guard_sessions import (
    SessionCall,
    decode_event,
    encode_event,
    parse_arguments,
)
from services.evidence.domain.guard_trials import (
    FiredSession,
    GuardTrial,
    ModeDecision,
    apply_decision,
    decide_mode,
    undo_decision,
)
from services.evidence.domain.stored_backtest import StoredBacktest, demote

NOW = datetime(2026, 11, 25, tzinfo=UTC)
FAILED = FiredSession(passed=False, is_withheld=True, is_made=True, has_failed=False)
ALARM = FiredSession(passed=True, is_withheld=True, is_made=True, has_failed=False)
REPAIRED = FiredSession(passed=True, is_withheld=True, is_made=True, has_failed=True)
ADVISED = FiredSession(passed=True, is_withheld=False, is_made=False, has_failed=False)
IGNORED = FiredSession(passed=False, is_withheld=False, is_made=True, has_failed=False)


def build_trial(mode: GuardMode, *sessions: FiredSession) -> GuardTrial:
    """Return a guard that was measured in a mode."""
    trial = GuardTrial("b", "true", mode, 0, NOW, 0)
    for session in sessions:
        trial = trial.add(session)
    return trial


@pytest.mark.parametrize("sessions", [1, 7, 40])
@pytest.mark.parametrize("limit", [0.0025, 0.02, 0.1])
def test_evidence_about_the_limit_itself_has_the_mean_one(sessions: int, limit: float) -> None:
    for compute in (compute_evidence_below, compute_evidence_above):
        mean = sum(
            comb(sessions, alarms)
            * limit**alarms
            * (1 - limit) ** (sessions - alarms)
            * exp(compute(sessions, alarms, limit))
            for alarms in range(sessions + 1)
        )
        assert mean == pytest.approx(1.0)


def test_a_guard_that_is_right_leaves_shadow() -> None:
    trial = build_trial(GuardMode.SHADOW, FAILED, REPAIRED)
    assert (trial.hits, trial.alarms) == (2, 0)
    assert decide_mode(trial, 150) is None
    decided = decide_mode(trial, 210)
    assert decided is not None
    assert decided[0] is GuardMode.ADVISE
    # Without a mistake that it would have met, there is no use in it.
    assert decide_mode(build_trial(GuardMode.SHADOW), 10_000) is None
    assert decide_mode(build_trial(GuardMode.SHADOW, FAILED, *[ALARM] * 4), 210) is None


def test_advice_that_helps_becomes_a_question_and_then_a_refusal() -> None:
    trial = build_trial(GuardMode.ADVISE, *[ADVISED, ADVISED, ADVISED, FAILED] * 20)
    assert trial.alarms == 0
    decided = decide_mode(trial, 2_000)
    assert decided is not None
    assert decided[0] is GuardMode.ASK
    assert "0 of 60 firings with advice and 20 of 20 without" in decided[1]
    asking = apply_decision(trial, GuardMode.ASK, NOW, 2_000)
    assert decide_mode(asking, 2_100) is None
    assert decide_mode(asking, 2_500) is not None
    # A question that was never preceded by proven advice never becomes a refusal.
    assert decide_mode(build_trial(GuardMode.ASK), 10_000) is None


def test_false_alarms_demote_for_good() -> None:
    for mode in (GuardMode.ADVISE, GuardMode.ASK, GuardMode.DENY):
        trial = build_trial(mode, *[ALARM] * 8)
        decided = decide_mode(trial, 100)
        assert decided is not None
        assert decided[0] is GuardMode.SHADOW
        demoted = apply_decision(trial, GuardMode.SHADOW, NOW, 100).add(FAILED)
        assert decide_mode(demoted, 10_000) is None


def test_advice_without_effect_or_with_harm_is_withdrawn() -> None:
    useless = build_trial(GuardMode.ADVISE, *[IGNORED, IGNORED, IGNORED, FAILED] * 300)
    harmful = build_trial(GuardMode.ADVISE, *[IGNORED, IGNORED, IGNORED, REPAIRED, IGNORED, ALARM] * 60)
    for trial, passed in ((useless, 100), (harmful, 100_000)):
        decided = decide_mode(trial, passed)
        assert decided is not None
        assert decided[0] is GuardMode.SHADOW


def test_an_undone_promotion_is_not_repeated_and_an_undone_demotion_may_be() -> None:
    promoted = build_trial(GuardMode.ADVISE)
    decision = ModeDecision("b", "true", GuardMode.SHADOW, GuardMode.ADVISE, "", NOW)
    undone = undo_decision(promoted, decision, NOW, 0)
    assert undone.mode is GuardMode.SHADOW
    assert decide_mode(undone.add(FAILED), 10_000) is None
    demotion = ModeDecision("b", "true", GuardMode.ADVISE, GuardMode.SHADOW, "", NOW)
    again = undo_decision(build_trial(GuardMode.SHADOW), demotion, NOW, 0)
    assert (again.mode, again.earned, again.cap) == (GuardMode.ADVISE, GuardMode.ADVISE, GuardMode.DENY)


def test_later_trajectories_demote_a_guard_for_good_if_they_alone_show_too_many_false_alarms() -> None:
    stored = StoredBacktest(failed=3, failed_firing=3, passed=160, passed_firing=0, false_alarms=0)
    assert demote("b", "true", GuardMode.ADVISE, GuardMode.ADVISE, stored) is None

    def add(passed: int, alarms: int) -> StoredBacktest:
        firings = tuple(Firing(str(n), "", 0, 0, is_success=True, is_late=False) for n in range(alarms))
        return stored.add(Backtest(passed=passed, firings=firings))

    single = demote("b", "true", GuardMode.ADVISE, GuardMode.SHADOW, add(10, 1))
    assert single is not None
    assert (single.after, single.is_final) == (GuardMode.SHADOW, False)
    # A mode that sessions earned falls only by such evidence.
    assert demote("b", "true", GuardMode.ADVISE, GuardMode.ADVISE, add(10, 1)) is None
    many = demote("b", "true", GuardMode.ADVISE, GuardMode.ADVISE, add(20, 6))
    assert many is not None
    assert (many.after, many.is_final) == (GuardMode.SHADOW, True)
    assert demote("b", "true", GuardMode.SHADOW, GuardMode.SHADOW, add(20, 6)) is None


SESSIONS = st.builds(FiredSession, st.booleans(), st.booleans(), st.booleans(), st.booleans())


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(GuardMode), st.sampled_from(GuardMode), st.lists(SESSIONS, max_size=60), st.integers(0, 3_000))
def test_a_mode_rises_by_one_step_and_never_above_the_cap(
    mode: GuardMode, cap: GuardMode, sessions: list[FiredSession], more: int
) -> None:
    trial = build_trial(mode, *sessions)
    passed = sum(session.passed for session in sessions) + more
    decided = decide_mode(replace(trial, cap=cap), passed)
    if decided is not None:
        after, reason = decided
        assert after is GuardMode.SHADOW or (after == mode + 1 and after <= cap)
        assert after is not mode
        assert reason


@pytest.mark.parametrize("text", ["thanks \ud83d", "thanks 😀", "表", "plain"])
def test_events_are_stored_with_every_text_that_json_has(text: str) -> None:
    call = SessionCall(ToolCallRequest("post", {"text": text}), text, False)
    stored = encode_event(call)
    assert decode_event(stored.encode("utf-8").decode("utf-8")) == call


def test_arguments_are_nested_up_to_a_limit_that_does_not_depend_on_the_stack() -> None:
    def nest(levels: int) -> str:
        return '{"a": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}"

    assert parse_arguments(nest(MAX_NESTING), "call.arguments")
    assert parse_arguments('{"a": [' + "[], " * MAX_NESTING + "[]]}", "call.arguments")
    with pytest.raises(InvalidCallArguments, match="must be nested at most 200 levels deep"):
        parse_arguments(nest(MAX_NESTING + 1), "call.arguments")
    with pytest.raises(InvalidCallArguments, match="must be nested at most 200 levels deep"):
        parse_arguments(nest(50_000), "call.arguments")
