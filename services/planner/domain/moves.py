"""Decide the next moves of an execution, as a pure function of its state and the time.

A step starts as soon as its dependencies have results that need no question; there are no waves. A question or a replan
waits until all running calls have returned, and no call starts meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from libs.prompts.language import LanguageSetting
from services.planner.domain.answers import InterventionPolicy, asks_as_agent, awaits_answer_text
from services.planner.domain.events import AnswerOutcome
from services.planner.domain.execution import ExecutionState, StepToolCall
from services.planner.domain.interventions import InterventionRequest
from services.planner.domain.plans import Action, PlanStep, StepStatus
from services.planner.domain.replanning import ReplanManager, ReplanTrigger
from services.planner.domain.results import HeldCall
from services.planner.domain.texts import TEXTS
from services.planner.domain.thresholds import InterventionLevel

ENDED_EARLY = "the execution ended before this step"


@dataclass(frozen=True, slots=True)
class CallTool:
    """Call a tool for a step."""

    step_id: int
    action: Action
    attempt: int


@dataclass(frozen=True, slots=True)
class JudgeStep:
    """Judge the result of the last call of a step."""

    step_id: int


@dataclass(frozen=True, slots=True)
class SkipStep:
    """Skip a step."""

    step_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Ask a person."""

    request: InterventionRequest


@dataclass(frozen=True, slots=True)
class ReplanSteps:
    """Replace the plan."""

    trigger: ReplanTrigger
    step_id: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class RefuseReplan:
    """Keep the plan although new information was added (P-95)."""

    trigger: ReplanTrigger


@dataclass(frozen=True, slots=True)
class ReplacePlan:
    """Use the plan that a person gave or had refined."""


@dataclass(frozen=True, slots=True)
class FinishExecution:
    """End the execution. `reason` is empty unless a limit ended it."""

    reason: str = ""


Move = CallTool | JudgeStep | SkipStep | AskPerson | ReplanSteps | RefuseReplan | ReplacePlan | FinishExecution


@dataclass(frozen=True, slots=True)
class ExecutionRules:
    """The configuration that decides the moves, besides the state."""

    policy: InterventionPolicy = field(default_factory=InterventionPolicy)
    replans: ReplanManager = field(default_factory=ReplanManager)
    max_parallel_steps: int = 8
    language: LanguageSetting = "auto"


class _UsageReservations:
    """Reserve tokens and cost for calls that run beside each other.

    The usage of a call is known only after it. A call therefore reserves the largest usage of any successful call of
    its action in this plan, and all that is left while there was none. While no call is running, one may always start;
    so at most the usage of one call exceeds a budget, as if calls ran one after another.
    """

    def __init__(self, state: ExecutionState) -> None:
        calls = [call for step_calls in state.calls.values() for call in step_calls]
        results = [(call.action, call.result) for call in calls if call.result is not None and call.result.success]
        budget = state.budget
        self._left: list[int] = []
        self._largest: list[dict[Action, int]] = []
        for limit, used, usages in (
            (budget.max_tokens, state.tokens, [(action, result.token_usage) for action, result in results]),
            (budget.max_cost_micro_usd, state.cost_micro_usd, [(a, result.cost_micro_usd) for a, result in results]),
        ):
            if limit is None:
                continue
            largest: dict[Action, int] = {}
            for action, usage in usages:
                largest[action] = max(usage, largest.get(action, 0))
            self._left.append(limit - used)
            self._largest.append(largest)
        self._is_any_running = False
        for call in calls:
            if _waits_for_tool(call):
                self._take(call.action)

    def reserve(self, action: Action) -> bool:
        """Reserve the usage of a new call; return False if it does not fit beside the running calls."""
        needed = [self._estimate(position, action) for position in range(len(self._left))]
        if self._is_any_running and any(need > left for need, left in zip(needed, self._left, strict=True)):
            return False
        self._take(action)
        return True

    def _estimate(self, position: int, action: Action) -> int:
        largest = self._largest[position].get(action)
        return max(1, self._left[position]) if largest is None else largest

    def _take(self, action: Action) -> None:
        self._is_any_running = True
        for position in range(len(self._left)):
            self._left[position] -= self._estimate(position, action)


def choose_moves(state: ExecutionState, rules: ExecutionRules, now: datetime) -> list[Move]:
    """Return the moves to make now; empty while only running calls or a person can advance the execution."""
    if state.result is not None or state.is_paused:
        return []
    if state.is_cancelled or state.replan_failed:
        return [FinishExecution()]
    limit = find_exhausted_limit(state, now)
    resume_moves = _list_resume_moves(state, limit is not None)
    if resume_moves or _has_pending_call(state):
        return resume_moves + ([] if limit or _must_pause(state) else _list_start_moves(state, rules))
    if limit:
        return [FinishExecution(limit)]
    return _choose_moves_at_rest(state, rules, now) or _list_start_moves(state, rules) or [FinishExecution()]


def find_exhausted_limit(state: ExecutionState, now: datetime) -> str | None:
    """Return a message about the limit of the budget that is reached; None while none is."""
    budget = state.budget
    used = (
        ("tokens", budget.max_tokens, state.tokens),
        ("cost_micro_usd", budget.max_cost_micro_usd, state.cost_micro_usd),
        ("wall_seconds", budget.max_wall_seconds, state.compute_wall_seconds(now)),
        ("tool_calls", budget.max_tool_calls, state.tool_calls),
    )
    for name, limit, value in used:
        if limit is not None and value >= limit:
            return f"budget of {limit:g} {name} is used up"
    return None


def compute_wall_deadline(state: ExecutionState, now: datetime) -> datetime | None:
    """Return the time at which the budget of time runs out; None without one."""
    limit = state.budget.max_wall_seconds
    return None if limit is None else now + timedelta(seconds=max(0.0, limit - state.compute_wall_seconds(now)))


def _has_pending_call(state: ExecutionState) -> bool:
    return any(_waits_for_tool(state.find_last_call(step.step_id)) for step in _list_running_steps(state))


def _list_running_steps(state: ExecutionState) -> list[PlanStep]:
    return [step for step in state.plan.steps if state.step_statuses[step.step_id] is StepStatus.RUNNING]


def _waits_for_tool(call: StepToolCall | None) -> bool:
    return call is not None and call.result is None and not call.in_doubt


def _list_resume_moves(state: ExecutionState, is_budget_spent: bool) -> list[Move]:
    """Return the moves of running steps whose call has returned: their fallback, or a judgement."""
    moves: list[Move] = []
    for step in _list_running_steps(state):
        call = state.find_last_call(step.step_id)
        if call is None or call.result is None or _awaits_person(state, step.step_id):
            continue
        fallback = step.usable_fallback
        untried = fallback is not None and all(c.action != fallback for c in state.calls[step.step_id])
        if not call.result.success and fallback is not None and untried and not is_budget_spent:
            moves.append(CallTool(step.step_id, fallback, state.attempts.get(step.step_id, 0) + 1))
        else:
            moves.append(JudgeStep(step.step_id))
    return moves


def _awaits_person(state: ExecutionState, step_id: int) -> bool:
    """Return True if a running step waits for a person: its call is in doubt or held, or its tool asks a question."""
    call = state.find_last_call(step_id)
    if call is None:
        return False
    if call.held_call is not None:
        return True
    asks = call.result is not None and call.result.success and (call.action is Action.ASK_USER or asks_as_agent(call))
    return call.in_doubt or asks


def _list_open_questions(state: ExecutionState) -> list[int]:
    """Return the ids of the steps with an open question, in plan order."""
    found = []
    for step in state.plan.steps:
        status = state.step_statuses[step.step_id]
        judged = state.judgements.get(step.step_id)
        open_result = status is StepStatus.SUCCESS and judged is not None and judged.level.requires_answer
        waits = status is StepStatus.RUNNING and _awaits_person(state, step.step_id)
        if waits or (open_result and step.step_id not in state.settled_steps):
            found.append(step.step_id)
    return found


def _list_failed_steps(state: ExecutionState) -> list[int]:
    return [s.step_id for s in state.plan.steps if state.step_statuses[s.step_id] is StepStatus.FAILED]


def _must_pause(state: ExecutionState) -> bool:
    return bool(
        state.plan_change or _list_failed_steps(state) or _list_open_questions(state) or state.information_pending
    )


def _choose_moves_at_rest(state: ExecutionState, rules: ExecutionRules, now: datetime) -> list[Move]:
    """Return the move while no call is running.

    Calls in doubt come first, because a plan that is changed or ended no longer holds their steps; then plan changes,
    failures, questions, and information.
    """
    for step in _list_running_steps(state):
        call = state.find_last_call(step.step_id)
        if call is not None and call.in_doubt:
            return [_ask_about_step(state, step.step_id, rules, now)]
    if state.plan_change is not None:
        plan_change = state.plan_change
        if plan_change.outcome is AnswerOutcome.REPLAN:
            return [ReplanSteps(plan_change.trigger, plan_change.step_id, plan_change.text)]
        return [ReplacePlan()]
    for step_id in _list_failed_steps(state):
        call = state.find_last_call(step_id)
        timed_out = call is not None and call.result is not None and call.result.timed_out
        result = state.step_results[step_id]
        trigger = rules.replans.should_replan(result, state.replan_count, timed_out=timed_out)
        if trigger is None or not state.can_replan():
            return [FinishExecution()]
        return [ReplanSteps(trigger, step_id, result.error or "")]
    if state.plan.requires_confirmation and not state.plan_confirmed:
        return [_ask_about_plan(state, rules, now)]
    for step_id in _list_open_questions(state):
        return [_ask_about_step(state, step_id, rules, now)]
    if state.information_pending:
        trigger = ReplanTrigger.NEW_INFORMATION
        if rules.replans.is_cooling_down(trigger, state.last_replan_at, now) or not state.can_replan():
            return [RefuseReplan(trigger)]
        return [ReplanSteps(trigger, None, "\n".join(state.information))]
    return []


def _list_start_moves(state: ExecutionState, rules: ExecutionRules) -> list[Move]:
    """Return the moves that start steps, and those that skip steps that cannot start any more (P-38)."""
    if state.plan.requires_confirmation and not state.plan_confirmed:
        return []
    moves: list[Move] = []
    free_slots = rules.max_parallel_steps - len(_list_running_steps(state))
    if state.budget.max_tool_calls is not None:
        free_slots = min(free_slots, state.budget.max_tool_calls - state.tool_calls)
    reservations = _UsageReservations(state)
    for step in state.plan.steps:
        if state.step_statuses[step.step_id] is not StepStatus.PENDING:
            continue
        needed = [state.step_statuses.get(dependency, StepStatus.SKIPPED) for dependency in step.depends_on]
        if any(status in (StepStatus.FAILED, StepStatus.SKIPPED) for status in needed):
            moves.append(SkipStep(step.step_id, "a step it depends on has no result"))
        elif free_slots > 0 and all(status is StepStatus.SUCCESS for status in needed):
            if not reservations.reserve(step.action):
                continue
            moves.append(CallTool(step.step_id, step.action, state.attempts.get(step.step_id, 0) + 1))
            free_slots -= 1
    return moves


def _make_question(state: ExecutionState, rules: ExecutionRules, now: datetime, **fields: Any) -> AskPerson:
    timeout = round(state.budget.max_answer_seconds or rules.policy.default_timeout)
    return AskPerson(InterventionRequest(timeout_seconds=timeout, plan=state.plan, created_at=now, **fields))


def _ask_about_plan(state: ExecutionState, rules: ExecutionRules, now: datetime) -> AskPerson:
    texts = TEXTS[state.language]
    message = texts.confirm_plan.format(count=len(state.plan.steps))
    level = InterventionLevel.CONFIRM
    return _make_question(state, rules, now, level=level, message=message, options=texts.confirm_options)


def _ask_about_step(state: ExecutionState, step_id: int, rules: ExecutionRules, now: datetime) -> AskPerson:
    step, call = state.plan.get_step(step_id), state.find_last_call(step_id)
    if call is not None and call.held_call is not None:
        return _ask_about_held_call(state, step_id, call.held_call, rules, now)
    if awaits_answer_text(state, step_id):
        return _ask_for_text(state, step, rules, now)
    judgement, texts = state.judgements[step_id], TEXTS[state.language]
    score = judgement.confidence.score
    needs_information = judgement.level is InterventionLevel.ESCALATE
    return _make_question(
        state,
        rules,
        now,
        level=judgement.level,
        step_id=step_id,
        message=texts.step_confidence.format(step_id=step_id, description=step.description, score=score),
        question=texts.ask_information if needs_information else texts.ask_continue,
        reason="audit" if judgement.audited else None,
        options=() if needs_information else texts.confirm_options,
        confidence_score=score,
    )


def _ask_about_held_call(
    state: ExecutionState, step_id: int, held_call: HeldCall, rules: ExecutionRules, now: datetime
) -> AskPerson:
    """Return the question about a call that a guard holds; it has the text of the lesson."""
    texts = TEXTS[state.language]
    return _make_question(
        state,
        rules,
        now,
        level=InterventionLevel.CONFIRM,
        step_id=step_id,
        message=texts.held_message.format(step_id=step_id, tool=held_call.tool, lesson=held_call.lesson),
        question=texts.held_question,
        reason="guard",
        options=("proceed", "skip", "cancel"),
    )


def _ask_for_text(state: ExecutionState, step: PlanStep, rules: ExecutionRules, now: datetime) -> AskPerson:
    """Return the question of an ask_user step (P-34, P-47), or about a call with an unknown outcome."""
    call, texts = state.find_last_call(step.step_id), TEXTS[state.language]
    if call is not None and call.in_doubt:
        question: dict[str, Any] = {
            "message": texts.in_doubt.format(step_id=step.step_id, action=call.action.value),
            "question": texts.in_doubt_question,
            "reason": "in doubt",
            "options": ("retry", "skip", "cancel"),
        }
    else:
        output = call.result.output if call is not None and call.result is not None else None
        fields = output if isinstance(output, dict) else {}
        question = {
            "message": step.description,
            "question": str(fields.get("question") or step.query or step.description),
            "reason": str(fields.get("reason") or "") or None,
            "options": tuple(str(option) for option in fields.get("options") or []),
        }
    return _make_question(state, rules, now, level=InterventionLevel.ESCALATE, step_id=step.step_id, **question)
