"""Jinja2 templates in a sandbox: nothing undefined passes, nothing dangerous is reachable, nothing explodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateRuntimeError, TemplateSyntaxError, UndefinedError
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

MAX_REPEATED_CHARS = 1_000_000
MAX_POWER_BITS = 4096


class _Environment(SandboxedEnvironment):
    """Jinja2's sandbox, in which `*` and `**` cannot build huge values either."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            for sized, times in ((left, right), (right, left)):
                if isinstance(sized, str | list | tuple) and isinstance(times, int):
                    _refuse_if(len(sized) * times > MAX_REPEATED_CHARS, "repetition")
        elif isinstance(left, int) and isinstance(right, int):
            _refuse_if(left.bit_length() * max(right, 0) > MAX_POWER_BITS, "power")
        return super().call_binop(context, operator, left, right)


def _refuse_if(too_large: bool, value_name: str) -> None:
    if too_large:
        raise SecurityError(f"{value_name} in a prompt template is too large")


def _create_environment() -> _Environment:
    environment = _Environment(autoescape=False, undefined=StrictUndefined)
    environment.globals.clear()  # only the documented variables are defined (B-10)
    return environment


_environment = _create_environment()
_compiled = lru_cache(maxsize=64)(_environment.from_string)


def render(template: str, variables: Mapping[str, object]) -> str:
    """Return the template with its variables filled in; values are never rendered again (B-16).

    Raises RuntimeError for a template that does not compile or names something undefined (B-12); whatever else happens
    inside a template is raised unchanged (B-13).
    """
    try:
        return _compiled(template).render(variables)
    except (TemplateSyntaxError, UndefinedError) as error:
        raise RuntimeError(f"Jinja2 template error: {error.message}") from error
    except TemplateRuntimeError as error:
        # Inside an `if` an unknown filter or test is only found when it is reached.
        if str(error).startswith(("No filter named", "No test named")):
            raise RuntimeError(f"Jinja2 template error: {error.message}") from error
        raise
