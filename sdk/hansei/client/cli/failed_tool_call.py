"""A tool call that failed, and what worked afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FailedToolCall:
    """A tool call: the last message of a user before it, the operation, its arguments, and the kind of its error.

    ``error`` has no variable parts, so the same error is equal in every trajectory; it is empty if there was none.
    """

    user_message: str
    operation: str
    arguments: str
    error: str
    remedies: Sequence[str] = ()
    """The values and calls that worked afterwards in the same trajectory."""

    @property
    def error_kind(self) -> str:
        """Return the kind of the error: the operation with the message."""
        return f"{self.operation}: {self.error}"
