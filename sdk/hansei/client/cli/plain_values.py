"""Plain values of the command line, which need no conversion by pydantic."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

import typer

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_NUMBERS = (bool, int, float)


class _LazyConversion:
    """The conversion of a parameter; the one of typer is built for the first value that needs it."""

    def __init__(self, parameter: Any) -> None:
        self._build_conversion = parameter.get_runtime_param
        self._annotation = parameter.type_descriptor.annotation
        self._info = parameter.type_descriptor.parameter_info

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value. Raises typer.BadParameter."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        self._refuse_empty_path(value, param, ctx)
        plain = None if self._info.parser is not None else self._convert_plain(value, param.default)
        return self._build_conversion().coerce(value, param=param, ctx=ctx) if plain is None else plain

    def _refuse_empty_path(self, value: Any, param: Any, ctx: Any) -> None:
        """Raise typer.BadParameter for an empty path: `Path("")` is the current directory, which nobody named."""
        is_path = self._annotation is Path or get_args(self._annotation) == (Path,)
        if is_path and "" in (value if isinstance(value, list | tuple) else (value,)):
            raise typer.BadParameter("the path is empty; name a file or a folder", ctx=ctx, param=param)

    def _convert_plain(self, value: Any, default: Any) -> Any:
        """Return the converted value, or None if pydantic has to convert or to refuse it."""
        wanted = self._annotation
        if get_origin(wanted) is list:
            is_plain = get_args(wanted) == (str,) and all(type(item) is str for item in value)
            return list(value) if is_plain else None
        if wanted is str:
            return value if type(value) is str else None
        if wanted is int and type(value) is str and _INTEGER.fullmatch(value):
            return int(value) if self._is_in_range(int(value)) else None
        if isinstance(wanted, type) and issubclass(wanted, Enum):
            return next((member for member in wanted if value in (member, member.value)), None)
        return value if wanted in _NUMBERS and type(value) is wanted and value == default else None

    def _is_in_range(self, number: int) -> bool:
        least, most = self._info.min, self._info.max
        return (least is None or least <= number) and (most is None or number <= most)


class LazyConversions:
    """A command that converts only values that need it: building a conversion loads pydantic, which takes long.

    Texts, lists of texts, integers in their range, members of enumerations and defaults are plain. Versions of typer
    without `get_runtime_param` convert all values.
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
