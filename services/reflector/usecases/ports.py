"""The interfaces of reflection to models and callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from pydantic import BaseModel

from services.reflector.domain.reflection import ReflectionResult
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.prompts.builder import Message

Reply = TypeVar("Reply", bound=BaseModel)


class Reflector(Protocol):
    """Draws lessons from a trajectory and votes on the bullets it used."""

    async def run(self, request: ReflectionRequest) -> ReflectionResult:
        """Return the reflection; it says if a model failed, which is not an error of the call (R-21)."""


class ReflectionModel(Protocol):
    """A chat model that returns structured replies."""

    name: str

    async def find_context_tokens(self) -> int | None:
        """Return the size of the model's context, None if it is unknown."""

    async def reply(
        self,
        messages: Sequence[Message],
        shape: type[Reply],
        report_problem: Callable[[str], None] = lambda problem: None,
    ) -> Reply:
        """Return the reply to `messages`. Raise for a failed call or a reply that stays invalid (G-11).

        `report_problem` is called for a usable reply that is incomplete.
        """
