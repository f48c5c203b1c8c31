"""A trajectory: the record of the work of one agent, with the question, the steps and the outcome (R-01, R-02)."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from services.reflector.domain.dataset import check_dataset
from services.reflector.domain.reflection import Signal
from services.reflector.domain.usage import TrajectoryUsage

Role = Literal["system", "user", "assistant", "tool"]
Status = Literal["success", "failure"]

MAX_STEPS = 10_000
MAX_CONTENT_CHARS = 4_000_000
"""Maximum characters of one step."""
MAX_ARGUMENTS_CHARS = 1_000_000
MAX_TOOL_CALLS = 128
"""Maximum tool calls of one step."""
MAX_TRAJECTORY_CHARS = 20_000_000
"""Maximum characters of all steps together."""
MAX_TEXT_CHARS = 1_000_000
"""Maximum characters of the answer and of each reasoning step."""
MAX_QUERY_CHARS = 100_000
"""Maximum characters of the query and of the error message."""
MAX_ID_CHARS = 256
MAX_BULLET_IDS = 1_000
MAX_SERVINGS = 100
MAX_SERVING_CHARS = 64

Id = Annotated[str, Field(max_length=MAX_ID_CHARS)]
Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
BulletIds = Annotated[tuple[Id, ...], Field(max_length=MAX_BULLET_IDS)]
ServingIds = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=MAX_SERVING_CHARS)], ...], Field(max_length=MAX_SERVINGS)
]


def _convert_to_utc(moment: datetime) -> datetime:
    """Return a time in UTC. Raises ValueError if it is not in the years 1 to 9999 there."""
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must be in the years 1 to 9999 in UTC") from error


Utc = Annotated[AwareDatetime, AfterValidator(_convert_to_utc)]


class ToolCall(BaseModel):
    """A tool call of the agent; ``arguments`` is text, usually JSON, and never evaluated."""

    model_config = ConfigDict(frozen=True)

    id: Id = ""
    name: Id
    arguments: str = Field(default="", max_length=MAX_ARGUMENTS_CHARS)


class Step(BaseModel):
    """One turn of a trajectory. ``index`` is its position in the recorded log, ``name`` the agent or tool that speaks.

    ``source`` is the position in the source file, if it differs from ``index``.
    """

    model_config = ConfigDict(frozen=True)

    index: int = Field(ge=0)
    role: Role
    name: Id = ""
    content: str = Field(default="", max_length=MAX_CONTENT_CHARS)
    tool_calls: tuple[ToolCall, ...] = Field(default=(), max_length=MAX_TOOL_CALLS)
    tool_call_id: Id = ""
    source: Id = ""

    @property
    def speaker(self) -> str:
        """Return the agent or tool that speaks, or else the role."""
        return self.name or self.role


class Trajectory(BaseModel):
    """One answer attempt and its outcome (R-01, R-02).

    ``steps`` is the recorded log; it is empty if only ``reasoning_steps`` were recorded. Trajectories of one task
    share a ``task_id``. ``reward`` comes from an environment (1 full success, 0 none); ``signal`` names the basis
    of ``status``, None lets both be derived from the rest (see `outcome`). ``usage`` is None if the log states none.
    """

    model_config = ConfigDict(frozen=True)

    id: Id = ""
    task_id: Id = ""
    query: str = Field(max_length=MAX_QUERY_CHARS)
    dataset: Annotated[str, AfterValidator(check_dataset)]
    generated_answer: Text
    reasoning_steps: tuple[Text, ...] = Field(max_length=MAX_STEPS)
    used_bullet_ids: BulletIds
    cited_bullet_ids: BulletIds = ()
    serving_ids: ServingIds = ()
    status: Status
    error_message: str | None = Field(default=None, max_length=MAX_QUERY_CHARS)
    reward: float | None = Field(default=None, allow_inf_nan=False)
    signal: Signal | None = None
    steps: tuple[Step, ...] = Field(default=(), max_length=MAX_STEPS)
    created_at: Utc = Field(default_factory=lambda: datetime.now(UTC))
    usage: TrajectoryUsage | None = None

    @model_validator(mode="after")
    def _check_steps(self) -> Trajectory:
        for position, step in enumerate(self.steps):
            if step.index != position:
                raise ValueError(f"steps[{position}].index must be the step's position, {position}, not {step.index}")
        size = sum(len(step.content) + sum(len(call.arguments) for call in step.tool_calls) for step in self.steps)
        if size > MAX_TRAJECTORY_CHARS:
            raise ValueError(f"the steps have {size} characters, at most {MAX_TRAJECTORY_CHARS} are allowed")
        return self

    @property
    def content_id(self) -> str:
        """Return an id derived from the content, equal for equal trajectories, also if only one of them has a usage."""
        left_out = dict.fromkeys(("id", "created_at", "serving_ids", "usage"), True)
        content = self.model_dump_json(exclude={**left_out, "steps": {"__all__": {"source"}}})
        return f"trj-{sha256(content.encode()).hexdigest()[:24]}"

    @property
    def transcript(self) -> tuple[Step, ...]:
        """Return the steps that lessons refer to: `steps`, or else `reasoning_steps` as steps of the agent."""
        if self.steps:
            return self.steps
        return tuple(
            Step(index=index, role="assistant", content=text) for index, text in enumerate(self.reasoning_steps)
        )

    @property
    def first_step_number(self) -> int:
        """Return the number of the first step in a prompt: 0 for `steps`, 1 for `reasoning_steps` (R-25)."""
        return 0 if self.steps else 1
