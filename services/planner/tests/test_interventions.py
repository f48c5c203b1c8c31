"""Questions, answers, callbacks (P-78 to P-88, P-94)."""

import asyncio

import pytest

from services.planner.domain.answers import InterventionPolicy
from services.planner.domain.interventions import (
    InterventionAction,
    InterventionRequest,
    InterventionResponse,
    choose_default,
    parse_answer,
    wants_replan,
)
from services.planner.domain.thresholds import InterventionLevel
from services.planner.usecases.interventions import InterventionHandler

Action = InterventionAction
CONFIRM = InterventionRequest(level=InterventionLevel.CONFIRM, step_id=1, message="m")


def test_the_actions_are_those_of_the_contract() -> None:  # P-78
    assert {a.value for a in Action} == {"proceed", "modify", "cancel", "input", "retry", "skip"}


def test_requests_have_defaults() -> None:  # P-79, P-88
    assert (CONFIRM.timeout_seconds, CONFIRM.is_blocking, CONFIRM.options) == (300, True, ())
    policy = InterventionPolicy()
    assert (policy.default_timeout, policy.auto_proceed_on_timeout, policy.max_clarification_rounds) == (300, False, 3)


@pytest.mark.parametrize("action", list(Action))
def test_every_answer_except_cancel_continues(action: InterventionAction) -> None:  # P-80
    response = InterventionResponse(action=action)
    assert response.should_continue is (action is not Action.CANCEL)
    assert response.timeout_reached is False


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("はい、続行", Action.PROCEED),
        ("yes, Continue", Action.PROCEED),
        ("Change the plan", Action.MODIFY),
        ("proceed", Action.PROCEED),
        (" YES ", Action.PROCEED),
        ("計画を修正", Action.MODIFY),
        ("Modify", Action.MODIFY),
        ("キャンセル", Action.CANCEL),
        ("cancel", Action.CANCEL),
        ("No\n", Action.CANCEL),
        ("stop", Action.CANCEL),
        ("中止", Action.CANCEL),
        ("yes please", Action.INPUT),
        ("ＹＥＳ", Action.INPUT),
        ("", Action.INPUT),
    ],
)
def test_text_answers_are_parsed_into_actions(text: str, action: InterventionAction) -> None:  # P-83, P-84
    assert parse_answer(text).action is action
    if action is Action.INPUT:
        assert parse_answer(text).user_input == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("修正して", True),
        ("変更", True),
        ("やり直し", True),
        ("それは違う", True),
        ("別の方法", True),
        ("ok", False),
        ("", False),
    ],
)
def test_a_text_that_requests_another_plan_is_a_modification(text: str, expected: bool) -> None:  # P-94
    assert wants_replan(text) is expected


def test_without_an_answer_the_default_is_cancel_or_proceed() -> None:  # P-85
    assert (choose_default(False).action, choose_default(True).action) == (Action.CANCEL, Action.PROCEED)
    assert choose_default(False).timeout_reached


async def test_silent_and_notify_continue() -> None:  # P-81, P-87
    notified: list[str] = []

    def notify(message: str) -> None:
        notified.append(message)
        raise RuntimeError("ignored")

    handler = InterventionHandler(on_notify=notify)
    for level in (InterventionLevel.SILENT, InterventionLevel.NOTIFY):
        response = await handler.handle(InterventionRequest(level=level, message=level.value))
        assert response.action is Action.PROCEED
    assert notified == ["notify"]
    assert [(h.level, h.response_action, h.timeout_reached) for h in handler.history] == [
        (InterventionLevel.SILENT, Action.PROCEED, False),
        (InterventionLevel.NOTIFY, Action.PROCEED, False),
    ]
    assert (await InterventionHandler().handle(InterventionRequest(level=InterventionLevel.NOTIFY, message="m"))).action


@pytest.mark.parametrize("auto", [False, True])
async def test_no_callback_and_no_answer_are_the_same(auto: bool) -> None:  # P-85, P-137
    async def never(_: InterventionRequest) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    policy = InterventionPolicy(auto_proceed_on_timeout=auto)
    quick = CONFIRM.model_copy(update={"timeout_seconds": 0})
    outcomes = [
        await InterventionHandler(policy=policy).handle(CONFIRM),
        await InterventionHandler(on_confirm=never, policy=policy).handle(quick),
    ]
    assert [(o.action, o.timeout_reached) for o in outcomes] == [(Action.PROCEED if auto else Action.CANCEL, True)] * 2


async def test_the_callback_of_the_level_is_asked() -> None:  # P-82
    async def escalate(_: InterventionRequest) -> InterventionResponse:
        return InterventionResponse(action=Action.SKIP)

    handler = InterventionHandler(on_confirm=lambda _: "計画を修正", on_escalate=escalate)
    assert (await handler.handle(CONFIRM)).action is Action.MODIFY
    higher = CONFIRM.model_copy(update={"level": InterventionLevel.ESCALATE})
    assert (await handler.handle(higher)).action is Action.SKIP
