"""Questions to people, and the interpretation of their answers (P-78 to P-86)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from services.planner.domain.plans import ExecutionPlan, utc_now
from services.planner.domain.texts import TEXTS, contains_words
from services.planner.domain.thresholds import InterventionLevel


class InterventionAction(StrEnum):
    """The decision of a person (P-78)."""

    PROCEED = "proceed"
    MODIFY = "modify"
    CANCEL = "cancel"
    INPUT = "input"
    RETRY = "retry"
    SKIP = "skip"


class InterventionRequest(BaseModel):
    """A question to a person (P-79). `step_id` is None for the plan itself."""

    model_config = ConfigDict(frozen=True)

    level: InterventionLevel
    step_id: int | None = None
    message: str
    question: str | None = None
    reason: str | None = None
    options: tuple[str, ...] = ()
    timeout_seconds: int = 300
    is_blocking: bool = True
    confidence_score: float | None = None
    plan: ExecutionPlan | None = None
    created_at: datetime = Field(default_factory=utc_now)


class InterventionResponse(BaseModel):
    """The answer of a person (P-80), or the default after a timeout."""

    model_config = ConfigDict(frozen=True)

    action: InterventionAction
    user_input: str | None = None
    modified_plan: ExecutionPlan | None = None
    selected_option: str | None = None
    remove_step: bool = False
    timeout_reached: bool = False
    response_time_ms: int | None = None
    created_at: datetime = Field(default_factory=utc_now)

    @property
    def should_continue(self) -> bool:
        """Return True unless the execution is to be cancelled."""
        return self.action is not InterventionAction.CANCEL


_ANSWERS = (InterventionAction.PROCEED, InterventionAction.MODIFY, InterventionAction.CANCEL)
_WORDS = {
    **{
        option.lower(): action
        for texts in TEXTS.values()
        for option, action in zip(texts.confirm_options, _ANSWERS, strict=True)
    },
    **dict.fromkeys(("proceed", "yes"), InterventionAction.PROCEED),
    "modify": InterventionAction.MODIFY,
    **dict.fromkeys(("no", "stop", "中止"), InterventionAction.CANCEL),
}


def _lower_ascii(text: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in text)


def parse_answer(text: str) -> InterventionResponse:
    """Return the response that a text means (P-83, P-84): that of a known word, else input."""
    action = _WORDS.get(_lower_ascii(text.strip()))
    if action is None:
        return InterventionResponse(action=InterventionAction.INPUT, user_input=text)
    return InterventionResponse(action=action, selected_option=text.strip())


def choose_default(auto_proceed: bool) -> InterventionResponse:
    """Return the response when nobody answers (P-85); the only implementation of this rule (P-137)."""
    action = InterventionAction.PROCEED if auto_proceed else InterventionAction.CANCEL
    return InterventionResponse(action=action, timeout_reached=True)


def wants_replan(feedback: str) -> bool:
    """Return True if a text requests another plan (P-94)."""
    return contains_words(feedback, "replan_words")


class HistoryEntry(BaseModel):
    """One intervention in the history of an execution (P-87)."""

    model_config = ConfigDict(frozen=True)

    timestamp: datetime
    level: InterventionLevel
    action: str
    message: str
    response_action: InterventionAction
    timeout_reached: bool = False


def build_history_entry(
    time: datetime, level: InterventionLevel, message: str, action: InterventionAction, timeout_reached: bool = False
) -> HistoryEntry:
    """Return the history entry of an intervention and its response."""
    return HistoryEntry(
        timestamp=time,
        level=level,
        action=level.action,
        message=message,
        response_action=action,
        timeout_reached=timeout_reached,
    )
