"""Errors of hansei as tool errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp.server.mcpserver.exceptions import ToolError

from hansei.client.errors import HanseiError


@contextmanager
def report_errors() -> Iterator[None]:
    """Raise errors of hansei as tool errors, with the message and the wrong fields for the model."""
    try:
        yield
    except HanseiError as error:
        lines = [f"{error.message} [{error.reason}]"]
        broken_rules = (violation.format_line() for violation in error.violations)
        lines += [line for line in broken_rules if line != error.message]
        raise ToolError("\n".join(lines)) from error
