"""The ports of reflection, to models and to callers."""

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
        """Return the reflection; a failing model shows as fewer iterations, not as an error (R-21)."""
        ...


class ReflectionModel(Protocol):
    """A chat model that answers in a given shape."""

    name: str

    async def reply(self, messages: Sequence[Message], shape: type[Reply]) -> Reply:
        """Return the answer to `messages`; one call. Raise for a failed call and a reply that does not fit (G-11)."""
        ...
