"""The tokens and the cost of the model calls of a trajectory."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_TOKENS = 10**12
MAX_COST_USD = 100_000

Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]


class TrajectoryUsage(BaseModel):
    """The tokens and the US dollars of model calls; None is unknown. The input tokens include the cached ones."""

    model_config = ConfigDict(frozen=True)

    input_tokens: Tokens | None = None
    cached_input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cost_usd: float | None = Field(default=None, ge=0, le=MAX_COST_USD, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check_cached_tokens(self) -> TrajectoryUsage:
        if self.cached_input_tokens is not None and self.cached_input_tokens > (self.input_tokens or 0):
            raise ValueError("cached_input_tokens must be at most input_tokens, which include them")
        return self

    @property
    def is_known(self) -> bool:
        """Return whether any value is known."""
        return any(value is not None for _, value in self)
