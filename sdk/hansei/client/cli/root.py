"""The root of the command tree: it words the errors of typer."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class RootGroup(TyperGroup):
    """A group whose commands describe wrong values in the words of hansei."""

    def invoke(self, ctx: Any) -> Any:
        """Invoke the chosen command. Raises typer.BadParameter for a wrong value."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _describe(error)
            raise


def _describe(error: typer.BadParameter) -> str:
    """Return the rule that a value breaks, and the value, instead of the text of pydantic."""
    # These load slowly, so they are imported only after an error.
    from pydantic import ValidationError

    from chassis.field_errors import describe_rule, describe_value

    if not isinstance(error.__cause__, ValidationError):
        return error.message
    (item, *_) = error.__cause__.errors(include_url=False)
    rule = describe_rule(item)
    return rule if item["type"] == "value_error" else f"{rule} (got {describe_value(item['input'])})"
