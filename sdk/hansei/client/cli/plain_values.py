"""Plain values of the command line, which need no conversion."""

from __future__ import annotations

from typing import Any

_NUMBERS = (bool, int, float)


class _LazyConversion:
    """The conversion of a parameter; the one of typer is built for the first value that needs it."""

    def __init__(self, parameter: Any) -> None:
        self._build_conversion = parameter.get_runtime_param
        self._annotation = parameter.type_descriptor.annotation
        self._has_parser = parameter.type_descriptor.parameter_info.parser is not None

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value. Raises typer.BadParameter."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if not self._has_parser and type(value) is self._annotation:
            is_default = self._annotation in _NUMBERS and value == param.default
            if is_default or self._annotation is str:
                return value
        return self._build_conversion().coerce(value, param=param, ctx=ctx)


class LazyConversions:
    """A command that converts only values that need it: building a conversion loads pydantic, which takes long.

    A missing value, a text for a text, and a number that is the default stay as they are. Versions of typer without
    `get_runtime_param` convert all values.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options, with the option that shows the help."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            _convert_lazily(parameter)
        return parameters


def _convert_lazily(parameter: Any) -> None:
    if hasattr(parameter, "get_runtime_param") and "get_runtime_param" not in vars(parameter):
        conversion = _LazyConversion(parameter)
        parameter.get_runtime_param = lambda: conversion
