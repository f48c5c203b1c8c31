"""Events of an execution. The log of these events is its only record.

A tool call is recorded three times: the intent before the call (`StepStarted`), the result (`ToolReturned`), and the
judgement (`StepFinished`). Whenever the process dies, the log shows which of the three is missing.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from libs.prompts.language import LanguageSetting
from services.planner.domain.confidence import ConfidenceScore
from services.planner.domain.interventions import InterventionRequest, InterventionResponse
from services.planner.domain.plans import Action, ExecutionPlan
from services.planner.domain.replanning import ReplanResult, ReplanTrigger
from services.planner.domain.results import ExecutionResult, ToolResult
from services.planner.domain.thresholds import InterventionLevel


class Effect(StrEnum):
    """The side effects of a tool call, which decide whether a call with an unknown outcome may be repeated."""

    PURE = "pure"
    KEYED = "keyed"
    RECONCILABLE = "reconcilable"
    UNSAFE = "unsafe"


class Budget(BaseModel):
    """The limits of an execution over all steps, replans and restarts. None: no limit."""

    model_config = ConfigDict(frozen=True)

    max_tokens: int | None = Field(default=None, ge=0)
    max_cost_micro_usd: int | None = Field(default=None, ge=0)
    max_wall_seconds: float | None = Field(default=None, ge=0)
    max_tool_calls: int | None = Field(default=None, ge=0)
    max_answer_seconds: float | None = Field(default=None, gt=0)
    """The seconds that each question waits for an answer. None: those of the intervention policy (P-88)."""


class AnswerOutcome(StrEnum):
    """The consequence of an answer for the execution."""

    PROCEED = "proceed"
    ANSWERED = "answered"
    RETRY = "retry"
    SKIP = "skip"
    REMOVE = "remove"
    CANCEL = "cancel"
    REPLAN = "replan"
    REPLACE = "replace"
    REFINE = "refine"


PLAN_CHANGES = (AnswerOutcome.REPLAN, AnswerOutcome.REPLACE, AnswerOutcome.REFINE, AnswerOutcome.REMOVE)
"""The consequences that change the plan."""


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class ExecutionStarted(_Event):
    """The execution began."""

    kind: Literal["started"] = "started"
    plan: ExecutionPlan
    budget: Budget = Budget()
    human_available: bool = True
    max_replans: int = 3
    language: LanguageSetting = "auto"


class StepStarted(_Event):
    """A tool is about to be called: the intent."""

    kind: Literal["step_started"] = "step_started"
    step_id: int
    action: Action
    attempt: int
    key: str
    effect: Effect = Effect.PURE


class ToolReturned(_Event):
    """A tool call returned: the result."""

    kind: Literal["tool_returned"] = "tool_returned"
    step_id: int
    attempt: int
    result: ToolResult


class StepFinished(_Event):
    """The last call of a step was judged: the commit. The output itself is in the `ToolReturned` of the call.

    `audit_probability`: the probability with which the step was selected for a label; `audited`: True if it was
    selected although it could pass. `audit_floor`: the audit rate of the time, 0 without audits. `tool`: the action.
    """

    kind: Literal["step_finished"] = "step_finished"
    step_id: int
    status: Literal["success", "failed"]
    confidence: ConfidenceScore
    level: InterventionLevel
    thresholds: tuple[float, float, float]
    calibrated: float | None = None
    audit_probability: float = 0.0
    audited: bool = False
    audit_floor: float = 0.0
    tool: str = ""
    self_evaluation: float | None = None
    coverage: float | None = None
    token_usage: int = 0
    cost_micro_usd: int = 0


class StepSkipped(_Event):
    """A step was skipped."""

    kind: Literal["step_skipped"] = "step_skipped"
    step_id: int
    reason: str


class StepInDoubt(_Event):
    """The process died during a call whose effect cannot be determined."""

    kind: Literal["step_in_doubt"] = "step_in_doubt"
    step_id: int
    attempt: int


class InterventionRequested(_Event):
    """A question to a person paused the execution. The request is stored without the plan, which the log contains."""

    kind: Literal["intervention_requested"] = "intervention_requested"
    request: InterventionRequest
    plan_version: int
    expires_at: datetime


class InterventionAnswered(_Event):
    """The question was answered, or expired."""

    kind: Literal["intervention_answered"] = "intervention_answered"
    step_id: int | None
    response: InterventionResponse
    outcome: AnswerOutcome
    trigger: ReplanTrigger | None = None


class Replanned(_Event):
    """The plan was replaced, or the attempt failed.

    `reset` names steps of the new plan whose old result is dropped. `counted` is False for a plan that a person gave or
    refined before the first step.
    """

    kind: Literal["replanned"] = "replanned"
    trigger: ReplanTrigger
    result: ReplanResult
    reset: tuple[int, ...] = ()
    counted: bool = True
    token_usage: int = 0
    cost_micro_usd: int = 0


class ReplanRefused(_Event):
    """A replan for new information was refused because the previous one was too recent (P-95)."""

    kind: Literal["replan_refused"] = "replan_refused"
    trigger: ReplanTrigger


class InformationAdded(_Event):
    """A client added information."""

    kind: Literal["information_added"] = "information_added"
    text: str


class LogLine(_Event):
    """A message for people."""

    kind: Literal["log"] = "log"
    message: str
    step_id: int | None = None


class CancelRequested(_Event):
    """A client requested the cancellation of the execution."""

    kind: Literal["cancel_requested"] = "cancel_requested"
    reason: str = ""


class ExecutionFinished(_Event):
    """The execution ended."""

    kind: Literal["finished"] = "finished"
    result: ExecutionResult


Event = Annotated[
    ExecutionStarted
    | StepStarted
    | ToolReturned
    | StepFinished
    | StepSkipped
    | StepInDoubt
    | InterventionRequested
    | InterventionAnswered
    | Replanned
    | ReplanRefused
    | InformationAdded
    | LogLine
    | CancelRequested
    | ExecutionFinished,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)


class RecordedEvent(BaseModel):
    """An event with its position in the log."""

    model_config = ConfigDict(frozen=True)

    sequence: int
    created_at: datetime
    event: Event
    hash: bytes = b""
