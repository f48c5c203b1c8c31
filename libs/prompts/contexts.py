"""The inputs of prompts (spec B-01 to B-06)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator


def _refuse_blank(value: str, info: ValidationInfo) -> str:
    if not value.strip():
        raise ValueError(f"{info.field_name} cannot be empty")
    return value


NonBlank = Annotated[str, AfterValidator(_refuse_blank)]


class ImprovementJudgment(BaseModel):
    """The judgement about another round: decision, reasoning, confidence from 0 to 1 (V-63)."""

    model_config = ConfigDict(frozen=True)

    should_continue: bool
    reasoning: str
    confidence_score: float = Field(ge=0, le=1, allow_inf_nan=False)


class RoundState(BaseModel):
    """One finished round of a team: its submission and its scores."""

    round_number: int = Field(ge=1)
    submission_content: str
    evaluation_score: float
    score_details: dict[str, Any]
    improvement_judgment: ImprovementJudgment | None = None
    round_started_at: datetime
    round_ended_at: datetime
    message_history: list[dict[str, Any]] = []


class RoundPromptContext(BaseModel):
    """The inputs of the team and judgment prompts.

    `store` may have a `get_leader_board_ranking(execution_id)`, sync or async; None: there is no ranking.
    """

    user_prompt: NonBlank
    round_number: int
    round_history: list[RoundState]
    team_id: NonBlank
    team_name: NonBlank
    execution_id: NonBlank
    store: Any = None

    @field_validator("round_number")
    @classmethod
    def _check_round_number(cls, value: int) -> int:
        if value < 1:
            raise ValueError("round_number must be >= 1")
        return value


class EvaluatorPromptContext(BaseModel):
    """The inputs of the evaluator prompt; the values are used as they are, not stripped."""

    user_query: NonBlank
    submission: NonBlank
