"""The interfaces of reflection to models and callers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from pydantic import BaseModel

from services.reflector.domain.reflection import ReflectionResult
from services.reflector.domain.reflection_request import ReflectionRequest

Message = tuple[str, str]
"""Role (`human` or `ai`) and text."""
Reply = TypeVar("Reply", bound=BaseModel)


class Reflector(Protocol):
    """Draws lessons from a trajectory and votes on the bullets it used."""

    async def run(self, request: ReflectionRequest) -> ReflectionResult:
        """Return the reflection; a failing model results in fewer iterations, not in an error (R-21)."""
        ...


class ReflectionModel(Protocol):
    """A chat model that returns structured replies."""

    name: str

    async def reply(self, messages: Sequence[Message], shape: type[Reply]) -> Reply:
        """Return the reply to `messages` from one call. Raise for a failed call or an invalid reply (G-11)."""
        ...
