"""What can happen to an execution. Its log of these events is all there is to know about it.

A tool call is written three times: the intent before the call (`StepStarted`), what came back (`ToolReturned`), and
what was made of it (`StepFinished`). Whatever moment the process dies in, the log says which of the three is missing.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from services.planner.domain.confidence import ConfidenceScore
from services.planner.domain.interventions import InterventionRequest, InterventionResponse
from services.planner.domain.plans import Action, ExecutionPlan
from services.planner.domain.replanning import ReplanResult, ReplanTrigger
from services.planner.domain.results import ExecutionResult, ToolResult
from services.planner.domain.thresholds import InterventionLevel


class Effect(StrEnum):
    """What a call leaves behind, and so what may be done when nobody knows whether it happened."""

    PURE = "pure"
    KEYED = "keyed"
    RECONCILABLE = "reconcilable"
    UNSAFE = "unsafe"


class Budget(BaseModel):
    """What an execution may use up, over all steps, replans and restarts. None: no limit."""

    model_config = ConfigDict(frozen=True)

    max_tokens: int | None = Field(default=None, ge=0)
    max_cost_micro_usd: int | None = Field(default=None, ge=0)
    max_wall_seconds: float | None = Field(default=None, ge=0)
    max_tool_calls: int | None = Field(default=None, ge=0)


class AnswerOutcome(StrEnum):
    """What an answer means for the execution."""

    PROCEED = "proceed"
    ANSWERED = "answered"
    RETRY = "retry"
    SKIP = "skip"
    CANCEL = "cancel"
    REPLAN = "replan"
    REPLACE = "replace"
    REFINE = "refine"


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Started(_Event):
    """The execution began."""

    kind: Literal["started"] = "started"
    plan: ExecutionPlan
    budget: Budget = Budget()
    human_available: bool = True
    max_replans: int = 3


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
    """What was made of a step's last call: the commit. The output itself stands in the call's `ToolReturned`.

    `audit_probability`: with which the step was chosen to be judged by a person although it could have passed;
    `audited`: whether it was. `audit_floor`: the smallest such probability at that time, 0 without a guarantee.
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
    self_evaluation: float | None = None
    coverage: float | None = None
    token_usage: int = 0
    cost_micro_usd: int = 0


class StepSkipped(_Event):
    """A step was left out."""

    kind: Literal["step_skipped"] = "step_skipped"
    step_id: int
    reason: str


class StepInDoubt(_Event):
    """The process died during a call whose effect nobody can be asked about."""

    kind: Literal["step_in_doubt"] = "step_in_doubt"
    step_id: int
    attempt: int


class InterventionRequested(_Event):
    """A person is asked; the execution is paused. The request is stored without the plan, which the log has."""

    kind: Literal["intervention_requested"] = "intervention_requested"
    request: InterventionRequest
    plan_version: int
    expires_at: datetime


class InterventionAnswered(_Event):
    """The question was answered, or its time was over."""

    kind: Literal["intervention_answered"] = "intervention_answered"
    step_id: int | None
    response: InterventionResponse
    outcome: AnswerOutcome
    trigger: ReplanTrigger | None = None


class Replanned(_Event):
    """The plan was replaced, or that was tried in vain.

    `reset` names steps of the new plan whose old result does not count any more. `counted` is false for a plan a
    person gave or refined before the first step.
    """

    kind: Literal["replanned"] = "replanned"
    trigger: ReplanTrigger
    result: ReplanResult
    reset: tuple[int, ...] = ()
    counted: bool = True
    token_usage: int = 0
    cost_micro_usd: int = 0


class ReplanRefused(_Event):
    """A replan for new information came too soon after the previous one (P-95)."""

    kind: Literal["replan_refused"] = "replan_refused"
    trigger: ReplanTrigger


class InformationAdded(_Event):
    """Someone added information."""

    kind: Literal["information_added"] = "information_added"
    text: str


class LogLine(_Event):
    """A line for people."""

    kind: Literal["log"] = "log"
    message: str
    step_id: int | None = None


class CancelRequested(_Event):
    """Someone asked for the execution to be cancelled."""

    kind: Literal["cancel_requested"] = "cancel_requested"
    reason: str = ""


class Finished(_Event):
    """The execution ended."""

    kind: Literal["finished"] = "finished"
    result: ExecutionResult


Event = Annotated[
    Started
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
    | Finished,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)


class Recorded(BaseModel):
    """An event in its place in the log."""

    model_config = ConfigDict(frozen=True)

    sequence: int
    created_at: datetime
    event: Event
    hash: bytes = b""
